"""The analysis as a short Markdown note for a merge request: what failed, whose, new or known, what to type.

Everything that comes from a run stands in code spans, so that nothing of it is markup, a mention or a link.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from harness.check_result import LINE
from harness.history.lines import History
from harness.report import markup
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.failures import Failure
from harness.report.analysis.nights import Night
from harness.report.analysis.planned import RAN
from harness.report.analysis.story import CellStory
from harness.report.markup import link
from harness.report.output.document import (
    commits,
    compare_url,
    culprit_of,
    reproduce,
    since_of,
    summary,
)
from harness.report.suspects import Explained
from harness.report.suspects import lines_of as lines_of_suspects
from harness.report.words import plural
from harness.validate.performance.figures import label_of

MARKER = "<!-- vmatrix -->"
MOST_ROWS = 10  # a note is read, a report is searched
MOST_NAMED = 6  # cells
MOST_FAILURES = 2  # of a cell
MOST_TEXT = 140  # characters of a name
MOST_SAID = 400  # characters of anything else
SOON = 7  # days
TWO_DAYS = 48  # hours
NEWS = {"new": "new", "known": "seen before"}


def render(analysis: Analysis, history: History, *, url: str = "") -> str:
    """Return the note; `url` is of the whole report, if it is published somewhere."""
    lines = [MARKER, *_head(analysis, url)]
    failing = sorted((c for c in analysis.tonight if c.failing), key=lambda c: (c.news != "new", _excused(c), c.id))
    lines += _failing(analysis, failing)
    lines += _asides(analysis)
    if history.skipped:
        first = history.skipped[0]
        lines += ["", f"{plural(len(history.skipped), 'line')} of the history cannot be read; the first: "
                      f"{code(f'{first.source}:{first.line}: {first.why}')}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _head(analysis: Analysis, url: str) -> list[str]:
    night = analysis.last
    if night is None:
        return ["## vmatrix: no runs", "", "The history has no matching cell runs."]
    counts = summary(analysis)
    passed = counts["outcomes"].get("passed", 0)
    new = f", {plural(counts['new'], 'new failure')}" if counts["new"] else ""
    new += f", {plural(counts['known'], 'failure')} seen before" if counts["known"] else ""
    lines = [f"## vmatrix: {passed} of {plural(counts['ran'], 'cell')} passed{new}", "", _where(night, url)]
    if analysis.freshness.stale:
        lines += ["", f"**The last night began {ago(analysis.freshness.hours_ago)}: a night is missing.**"]
    if night.outage:
        lines += ["", "**Most cells failed because of the infrastructure; this night says little about the code.**"]
    return lines


def _where(night: Night, url: str) -> str:
    where = night.where
    parts = [f"{night.start:%Y-%m-%d %H:%M} UTC"]
    parts += [f"commit {code(where.commit[:12])}"] if where.commit else []
    parts += [f"product {code(where.product)}"] if where.product else []
    parts += [link(f"pipeline {code(where.pipeline)}", where.pipeline_url)] if where.pipeline else []
    parts += [link("report", url)] if url else []
    return " · ".join(parts)


def _failing(analysis: Analysis, failing: Sequence[CellStory]) -> list[str]:
    if not failing:
        return []
    groups: dict[Hashable, list[CellStory]] = {}
    for cell in failing:
        groups.setdefault(_alike(cell), []).append(cell)
    rows = [_row(analysis, cells) for cells in groups.values()]
    lines = ["", "| cells | failure | blame | | since |", "|---|---|---|---|---|", *rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines += ["", f"and {plural(len(rows) - MOST_ROWS, 'more kind')} of failure; see the report."]
    counts = [c for c in failing if not _excused(c)] or list(failing)
    if analysis.suspects:
        lines += ["", "Suspects:", ""]
        lines += [
            f"- {code(line)}{_origin(analysis, suspect)}"
            for suspect in analysis.suspects
            for line in lines_of_suspects(suspect)
        ]
    command = markup.line_of(reproduce(counts[0].id, counts[0].last))
    return [*lines, "", "To reproduce the first one:", "", *markup.fenced(command, "sh")]


def _origin(analysis: Analysis, explained: Explained) -> str:
    """Return since which commit, or commits, a suspect fails, and whose files these are; "" where that is not known."""
    if culprit := culprit_of(analysis, explained):
        owners = f", owners {code(culprit['owners'])}" if culprit.get("owners") else ""
        return f", since {code(culprit['title'])} by {code(culprit['author'])}{owners}"
    ends = since_of(analysis, explained)
    if ends is None or not (ends["good"] and ends["bad"]):
        return ""
    commits_of = code(f"{ends['good'][:8]}..{ends['bad'][:8]}")
    return f", since {link(commits_of, ends['url'])}"


def _alike(cell: CellStory) -> Hashable:
    """Return what the cells of one row have in common."""
    failures = cell.failures.get(cell.last_night, ())
    return cell.news, cell.habit, _excused(cell), cell.since, tuple((f.blame, *f.key) for f in failures[:MOST_FAILURES])


def _row(analysis: Analysis, cells: Sequence[CellStory]) -> str:
    first, record = cells[0], cells[0].last
    failures = first.failures.get(first.last_night, ())
    blame = "quarantined" if _excused(first) else (record.blame if record is not None else "") or "unknown"
    by_cause: dict[tuple[str, ...], list[Failure]] = {}
    for failure in failures:
        by_cause.setdefault(failure.cause, []).append(failure)
    sentences = [_said(equal) for equal in list(by_cause.values())[:MOST_FAILURES]]
    sentences += [f"and {plural(len(by_cause) - MOST_FAILURES, 'more cause')}"] if len(by_cause) > MOST_FAILURES else []
    sentences += [f"{plural(len(by_cause), 'cause')}, {plural(len(failures), 'failure')}"] * (
        len(by_cause) < len(failures)
    )
    names = [link(code(c.id), c.last.where.job_url if c.last is not None else "") for c in cells[:MOST_NAMED]]
    names += [f"and {plural(len(cells) - MOST_NAMED, 'more cell')}"] if len(cells) > MOST_NAMED else []
    told = "<br>".join(names), "<br>".join(sentences)
    return markup.row(*told, markup.prose(blame), _judged(cells), _since(analysis, first))


def _judged(cells: Sequence[CellStory]) -> str:
    judgement = _words(cells[0])
    rates = [c.flaky for c in cells if c.flaky.enough and c.flaky.failed]
    worst = max(rates, key=lambda r: r.rate, default=None)
    return f"{judgement}; flaky in {worst.failed} of {worst.n}" if worst is not None else judgement


def _said(equal: Sequence[Failure]) -> str:
    """Return what failures of one cause say, once."""
    title = code(equal[0].title, MOST_TEXT) + (f" and {len(equal) - 1} more" if len(equal) > 1 else "")
    return f"{title} {code(equal[0].headline, LINE)}" if equal[0].headline else title


def _since(analysis: Analysis, cell: CellStory) -> str:
    if cell.since is None:
        return ""
    night = analysis.nights[cell.since.bad]
    good, bad = commits(analysis.nights, cell.since)
    if cell.since.good < 0:
        return f"{night.start:%Y-%m-%d}, never passed before"
    if not (good and bad):
        return f"{night.start:%Y-%m-%d}"
    if good == bad:
        return f"{night.start:%Y-%m-%d}, same commit {code(bad[:8])} passed before"
    return f"{night.start:%Y-%m-%d}, {link(code(f'{good[:8]}..{bad[:8]}'), compare_url(night, good, bad))}"


def _asides(analysis: Analysis) -> list[str]:
    ending = [q.entry for q in analysis.quarantine if q.days_left <= SOON]
    slower = [f"{s.cell} {s.step}".strip() + f" x{s.trend.ratio:.2f}" for s in analysis.slower]
    figures = [
        f"{c.id} {label_of(slow_figure.figure.key)} x{slow_figure.ratio:.2f}"
        for c in analysis.tonight
        for comparison in c.figures.compared.values()
        for slow_figure in comparison.slower
    ]
    open_ended = [
        f"{c.id} {c.last.outcome}" for c in analysis.tonight if c.last is not None and c.last.outcome not in RAN
    ]
    lists = [
        _list("inconclusive", open_ended),
        _list("fixed", [c.id for c in analysis.tonight if c.news == "fixed"]),
        _list("did not run", [n.cell for n in analysis.not_run]),
        _list("slower than usual", slower),
        _list("slower figures", figures),
        _list("missing nights", [day.isoformat() for day in reversed(analysis.freshness.missing)]),
        _list(
            "got worse",
            [
                f"{change.axis} {change.value}: {change.check} {change.failed} of {change.judged}"
                for change in analysis.worse
            ],
        ),
        _list("symptoms that no night of the last 60 had", analysis.idle_symptoms),
        _list("quarantine ends", [f"{entry.cells} {entry.until}" for entry in ending]),
    ]
    told = [line for line in lists if line]
    return ["", *told] if told else []


def _list(what: str, names: Sequence[str]) -> str:
    """Return a line that counts and names the first few; empty without any."""
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"- {what}: {len(names)}: {', '.join(map(code, names[:MOST_NAMED]))}{more}"


def code(text: str, most: int = MOST_SAID) -> str:
    """Return a text as a code span that nothing of it can end, shortened."""
    return markup.code(text, most)


def _excused(cell: CellStory) -> bool:
    return cell.last is not None and cell.last.outcome == "quarantined"


def lines_of(cells: Iterable[CellStory]) -> list[str]:
    """Return one line of plain text per failing cell, for a terminal."""
    return [
        f"{cell.id}: {cell.last.outcome}{f' ({cell.last.blame})' if cell.last.blame else ''}, {_words(cell)}"
        for cell in cells
        if cell.failing and cell.last is not None
    ]


def ago(hours: float | None) -> str:
    """Return how long ago something was, in words; days when it is two or more."""
    if hours is None:
        return "never"
    return plural(int(hours / 24), "day") + " ago" if hours >= TWO_DAYS else plural(int(hours), "hour") + " ago"


def _words(cell: CellStory) -> str:
    """Return whether a cell failed like this before, and how often it failed of late; the page says the same."""
    first = cell.since is not None and cell.since.good < 0
    habits = {
        "new": "failed in its only run" if first else "passed the run before",
        "sometimes": "fails now and then",
        "never": "did not fail lately",
    }
    often = f"failed {cell.streak} runs in a row" if cell.streak > 1 else habits.get(cell.habit, cell.habit)
    return f"{NEWS.get(cell.news, cell.news)}, {often}"
