"""The files of a report, by name: the page, the document, the note, the annotations, the badges."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from harness.history.lines import History
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.story import CellStory
from harness.report.output import badges, note
from harness.report.output.badges import FaultScore
from harness.report.output.document import commits, compare_url, document
from harness.report.page import render
from harness.sanitize import encoded

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


FORMATS = ("html", "md", "json", "svg", "annotations")
PAGE, NOTE, DOCUMENT, ANNOTATIONS = "index.html", "summary.md", "report.json", "annotations.json"


def files(
    analysis: Analysis,
    history: History,
    *,
    formats: Collection[str] = FORMATS,
    title: str = "vmatrix",
    url: str = "",
    faults: FaultScore | None = None,
) -> dict[str, bytes]:
    """Return the files of those formats.

    Args:
        url: where the page will be published, "" when it will not.
        faults: how many faults the checks find, where that was counted.
    """
    made: dict[str, str] = {}
    whole: dict[str, Any] = {}
    if {"html", "json"} & set(formats):
        score = faults.told() if faults is not None else None
        whole = {**document(analysis, history, title=title), "faults": score}
    if "html" in formats:
        made[PAGE] = render(whole)
    if "json" in formats:
        made[DOCUMENT] = json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n"
    if "md" in formats:
        made[NOTE] = note.render(analysis, history, url=url)
        made[NOTE] += "\n".join([*faults.lines(), ""]) if faults is not None else ""
    if "annotations" in formats:
        made[ANNOTATIONS] = json.dumps(links(analysis, url=url), ensure_ascii=False, indent=1) + "\n"
    if "svg" in formats:
        made |= badges.badges(analysis)
        made |= faults.badges() if faults is not None else {}
    return {name: encoded(text) for name, text in made.items()}
