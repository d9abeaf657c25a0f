"""Links for a job's page in GitLab (`artifacts:reports:annotations`): the jobs of failing cells, and what changed.

What a merge request's note would say, for when no token allows to post one.
Source: GitLab documentation, "GitLab CI/CD artifacts reports types", annotations.
"""

from __future__ import annotations

from harness.report.analysis.analyse import Analysis
from harness.report.analysis.story import CellStory
from harness.report.output.numbers import commits, compare_url

SECTION = "vmatrix"
MOST = 50  # links: a list that nobody scrolls to the end of
Links = dict[str, list[dict[str, dict[str, str]]]]


def links(analysis: Analysis, *, url: str = "") -> Links:
    """Return the links, the new failures first; no section without any. `url` is of the published report, if any."""
    found = [("vmatrix report", url)]
    for cell in sorted((c for c in analysis.tonight if c.failing), key=lambda c: (c.news != "new", c.id)):
        if (record := cell.last) is not None:
            label = f"{record.outcome}: {cell.id} ({record.blame or 'quarantined'}, {cell.news})"
            found += [(label, record.where.job_url), (f"changed since {cell.id} passed", _changed(analysis, cell))]
    links = dict.fromkeys(link for link in found if link[1].startswith(("https://", "http://")))
    entries = [{"external_link": {"label": label, "url": target}} for label, target in list(links)[:MOST]]
    return {SECTION: entries} if entries else {}


def _changed(analysis: Analysis, cell: CellStory) -> str:
    if cell.since is None:
        return ""
    return compare_url(analysis.nights[cell.since.bad], *commits(analysis.nights, cell.since))
