"""The analysis as one JSON document, small enough to lie inside a page; docs/report.md describes it.

Texts are as they were said: whoever shows them escapes them. What is the same for many nights is said once, by number.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from harness.check_result import shortened_below
from harness.history.lines import History
from harness.history.record import Record
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.checks import CheckStory
from harness.report.analysis.failures import Failure
from harness.report.analysis.nights import Night
from harness.report.analysis.planned import Quarantined
from harness.report.analysis.series import Range
from harness.report.analysis.story import CellStory, Slower, Trend
from harness.report.suspects import SHOWN, Explained, since
from harness.report.symptoms import meaning
from harness.validate.performance.figures import KINDS, over_slo, rounded


def kinds_of(analysis: Analysis) -> list[str]:
    """Return the kinds of figures that some cell has, in their order."""
    kinds = {name: None for cell in analysis.cells for name in cell.figures.series}
    return [*(name for name in KINDS if name in kinds), *(name for name in kinds if name not in KINDS)]


def figures(analysis: Analysis, places: Mapping[str, int]) -> dict[str, Any]:
    """Return what is said across cells; `places` are the cells' numbers."""
    tonight = [cell for cell in analysis.tonight if cell.last is not None and cell.last.figures]
    compared = [(cell, comparison) for cell in tonight for comparison in cell.figures.compared.values()]
    slower = [(places[cell.id], slow) for cell, comparison in compared for slow in comparison.slower]
    over = [(places[cell.id], figure) for cell, comparison in compared for figure, _ in comparison.over]
    return {
        "kinds": [_kind(name) for name in kinds_of(analysis)],
        "slower": [
            {"cell": cell, "ratio": rounded(slow.ratio), "said": slow.told}
            for cell, slow in sorted(slower, key=lambda numbered: -numbered[1].ratio)
        ],
        "over": [{"cell": cell, "said": figure.told, "slo": over_slo(figure)} for cell, figure in over],
        "compared": sum(comparison.compared for _, comparison in compared),
        "young": sum(comparison.young for _, comparison in compared),
    }


def series(cell: CellStory, kinds: list[str]) -> list[dict[str, Any]]:
    """Return a cell's series, each with the number of its kind."""
    return [
        {"kind": kinds.index(name), "values": [rounded(v) if v is not None else None for v in values]}
        for name, values in cell.figures.series.items()
    ]


def _kind(name: str) -> dict[str, Any]:
    known = KINDS.get(name)
    if known is None:
        return {"name": name, "label": name, "unit": "", "higher": False, "slo": None}
    return {key: value for key, value in asdict(known).items() if key != "work"}


MOST_SKIPPED = 100  # lines that could not be read, of which each is named
COMMIT = re.compile("[0-9a-f]{7,64}")
ARTIFACTS = "/artifacts/browse/"  # of a job's page


def axes(analysis: Analysis) -> dict[str, tuple[str, ...]]:
    """Return the axes and those of their values that some cell has, in the matrix's order."""
    used: dict[str, dict[str, None]] = {axis: {} for axis in analysis.planned.axes}
    for cell in analysis.cells:
        for axis, value in cell.axes.items():
            used.setdefault(axis, {})[value] = None
    ordered: dict[str, tuple[str, ...]] = {}
    for axis, values in used.items():
        known = [v for v in analysis.planned.axes.get(axis, ()) if v in values]
        ordered[axis] = (*known, *sorted(v for v in values if v not in known))
    return {axis: values for axis, values in ordered.items() if values}


def plain_night(night: Night) -> dict[str, Any]:
    """Return a night: when, of which commit, how many cells ended how."""
    where = night.where
    return {
        "date": night.start.date().isoformat(),
        "started": night.started,
        "finished": night.finished,
        "commit": where.commit,
        "branch": where.branch,
        "pipeline": where.pipeline,
        "url": where.pipeline_url,
        "project_url": where.project_url,
        "run": night.run,
        "tier": night.tier,
        "counts": night.counts,
        "infra_outage": night.outage,
    }


def history(history: History) -> dict[str, Any]:
    """Return how much of the history was read, and what could not be."""
    return {
        "records": len(history.records),
        "duplicates": history.duplicates,
        "skipped": [asdict(line) for line in history.skipped[:MOST_SKIPPED]],
        "skipped_total": len(history.skipped),
        "sources": list(history.sources),
        "forgotten": sum(r.forgotten for r in history.records),
    }


def attempts(record: Record) -> list[dict[str, Any]]:
    """Return how each attempt of a cell ended."""
    return [{"number": a.number, "outcome": a.outcome, "blame": a.blame} for a in record.attempts]


def logs(record: Record) -> list[dict[str, str]]:
    """Return where a cell's logs are: a page of its job, or a folder."""
    relative = record.where.job_url and not record.logs.startswith("/")
    url = f"{record.where.job_url}{ARTIFACTS}{record.logs}" if relative else ""
    return [{"label": "logs", "url": url, "path": record.logs}]


def index(values: Sequence[str], value: str | None) -> int:
    """Return a value's place among its axis' values; -1 when it is none of them."""
    return values.index(value) if value in values else -1


def rounded_seconds(seconds: float | None) -> float | None:
    """Return seconds, whole from 10 on: nobody reads more, and the page is smaller."""
    return None if seconds is None else round(seconds) if seconds >= 10 else round(seconds, 1)


def trend(trend: Trend | None) -> dict[str, Any] | None:
    """Return how long it takes now against usually, in seconds; nothing when too little is known."""
    if trend is None:
        return None
    return {**asdict(trend), "ratio": round(trend.ratio, 2), "notable": trend.notable}


def reproduce(cell: str, record: Record | None) -> str:
    """Return the command that runs a cell at a desk, with the suites of its tier."""
    argv = ["vmatrix", "run", cell]
    if record is not None and record.tier:
        argv += ["--tier", record.tier]
    return shlex.join(argv)


def summary(analysis: Analysis) -> dict[str, Any]:
    """Return the numbers of the last night."""
    tonight = analysis.tonight
    quarantined = [cell for cell in tonight if cell.last is not None and cell.last.outcome == "quarantined"]
    failing = [cell for cell in tonight if cell.failing and cell not in quarantined]
    failed = [cell.last for cell in failing if cell.last is not None and cell.last.outcome == "failed"]
    return {
        "cells": len(analysis.planned.cells) if analysis.planned.cells is not None else len(analysis.cells),
        "ran": len(tonight),
        "outcomes": analysis.last.counts if analysis.last is not None else {},
        "blames": dict(Counter(record.blame or "unknown" for record in failed)),
        "new": sum(cell.news == "new" for cell in failing),
        "known": sum(cell.news == "known" for cell in failing),
        "fixed": sum(cell.news == "fixed" for cell in tonight),
        "sometimes": sum(cell.habit == "sometimes" for cell in tonight),
        "slower": len({slower.cell for slower in analysis.slower}),
        "not_run": len(analysis.not_run),
        "quarantined": len(quarantined),
    }


def since_of(analysis: Analysis, explained: Explained) -> dict[str, str] | None:
    """Return between which commits what fails by a named suspect came, whichever cells had its values."""
    if explained.named is None or explained.named.around:
        return None
    records = [record for night in analysis.nights for record in night.cells.values()]
    ends = since(records, explained.named.values, [title for title, _ in explained.keys])
    if ends is None:
        return None
    good, bad = (record.where.commit for record in ends)
    url = compare_url(analysis.nights[-1], good, bad)
    return {"date": ends[1].start.date().isoformat(), "good": good, "bad": bad, "url": url}


def culprit_of(analysis: Analysis, explained: Explained) -> dict[str, str] | None:
    """Return the commit that bisection found for a named suspect, with author and owners."""
    night, named = analysis.last, explained.named
    if night is None or named is None:
        return None
    known = (night.cells[cell].culprit for cell in explained.cells if cell in night.cells)
    return next((dict(culprit) for culprit in known if culprit.get("values") == named.said), None)


def commits(nights: Sequence[Night], commit_range: Range) -> tuple[str, str]:
    """Return the last good and the first bad commit; an empty text for what is not known."""
    good = nights[commit_range.good].where.commit if commit_range.good >= 0 else ""
    return good, nights[commit_range.bad].where.commit


def compare_url(night: Night, good: str, bad: str) -> str:
    """Return GitLab's page of what changed between two commits; empty when there is none."""
    known = night.where.project_url and COMMIT.fullmatch(good) and COMMIT.fullmatch(bad)
    if not known or good == bad:
        return ""
    return f"{night.where.project_url}/-/compare/{good}...{bad}"


VERSION = 1
OUTCOMES = {
    "passed": "p",
    "failed": "f",
    "quarantined": "q",
    "interrupted": "i",
    "unfinished": "u",
    "unchecked": "c",
    "not started": "n",
}
BLAMES = {"product": "p", "infra": "i", "harness": "h", "user": "u"}
ABSENT = "."
NOBODY = " "
MOST_MESSAGE = 4000  # characters of a failure's text
MOST_CLUSTERS = 200
SELECTION = ("tier", "branch", "infra", "days", "focus")  # what of it a reader is told


def document(analysis: Analysis, history: History, *, title: str = "vmatrix") -> dict[str, Any]:
    """Return the document of an analysis."""
    return _Document(analysis, history, title).whole()


class _Document:
    def __init__(self, analysis: Analysis, history: History, title: str) -> None:
        self.analysis = analysis
        self.history = history
        self.title = title
        # texts that are said once: each gets the next number
        self.checks: dict[str, int] = defaultdict(count().__next__)
        self.messages: dict[str, int] = defaultdict(count().__next__)
        self.causes: dict[tuple[str, ...], int] = defaultdict(count().__next__)
        self.axes = axes(analysis)
        self.kinds = kinds_of(analysis)
        self.places = {cell.id: number for number, cell in enumerate(analysis.cells)}
        shown = analysis.clusters[:MOST_CLUSTERS]
        self.clusters = {cluster.signature: number for number, cluster in enumerate(shown)}

    def whole(self) -> dict[str, Any]:
        analysis = self.analysis
        fresh = analysis.freshness
        cells = [self.cell(cell) for cell in analysis.cells]
        clusters = self.cluster_list()
        return {
            "v": VERSION,
            "unit": analysis.unit,
            "title": self.title,
            "generated": analysis.now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "selection": {name: getattr(analysis.selection, name) for name in SELECTION},
            "freshness": {**asdict(fresh), "missing": [day.isoformat() for day in fresh.missing]},
            "axes": [{"name": name, "values": list(values)} for name, values in self.axes.items()],
            "nights": [plain_night(night) for night in analysis.nights],
            "summary": summary(analysis),
            "cells": cells,
            "checks": list(self.checks),
            "messages": list(self.messages),
            "clusters": clusters,
            "suspects": [self.explained(suspect) for suspect in analysis.suspects],
            "symptoms": self.symptoms(),
            "worse": [asdict(change) for change in analysis.worse],
            "week": asdict(analysis.week) if analysis.week is not None else None,
            "not_run": [{"cell": self.places[n.cell], "last": n.last, "why": n.why} for n in analysis.not_run],
            "slower": [self.slower(slower) for slower in analysis.slower],
            "figures": figures(analysis, self.places),
            "quarantine": [self.quarantined(entry) for entry in analysis.quarantine],
            "coverage": self.coverage(),
            "history": history(self.history),
        }

    def cell(self, cell: CellStory) -> dict[str, Any]:
        numbers = range(len(self.analysis.nights))
        records = [cell.records.get(number) for number in numbers]
        last = cell.last
        return {
            "id": cell.id,
            "values": [index(values, cell.axes.get(axis)) for axis, values in self.axes.items()],
            "planned": cell.planned,
            "outcomes": "".join(OUTCOMES.get(r.outcome, ABSENT) if r is not None else ABSENT for r in records),
            "blames": "".join(BLAMES.get(r.blame, NOBODY) if r is not None else NOBODY for r in records),
            "seconds": [rounded_seconds(r.seconds) if r is not None else None for r in records],
            "jobs": [r.where.job if r is not None else "" for r in records],
            "steps": [
                {"name": s.name, "seconds": [rounded_seconds(x) for x in s.seconds], "trend": trend(s.trend)}
                for s in cell.steps
            ],
            "trend": trend(cell.trend),
            "figures": series(cell, self.kinds),
            "last": {"night": cell.last_night, "outcome": last.outcome, "blame": last.blame} if last else None,
            **self.judged(cell),
            "failures": [
                {"night": night, "items": [self.failure(cell.id, night, f) for f in failures]}
                for night, failures in sorted(cell.failures.items())
            ],
            "attempts": {str(n): attempts(r) for n, r in cell.records.items() if len(r.attempts) > 1},
            "logs": {
                str(n): logs(r)
                for n, r in cell.records.items()
                if r.logs and (r.outcome != "passed" or n == cell.last_night)
            },
            "checks": [self.check(check) for check in cell.checks.stories],
            "passed_checks": [self.checks[title] for title in cell.checks.passed],
            "not_run_checks": [[self.checks[title], self.message(why)] for title, why in cell.checks.not_run.items()],
            "command": reproduce(cell.id, last),
        }

    def failure(self, cell: str, night: int, failure: Failure) -> dict[str, Any]:
        return {
            "check": self.checks[failure.title] if failure.check else -1,
            "step": "" if failure.check else failure.title,
            "stage": failure.stage,
            "blame": failure.blame,
            "message": self.message(failure.message, failure.headline),
            "cause": self.causes[failure.cause],
            "cluster": self.clusters.get(failure.signature, -1),
            "news": "known" if self.analysis.known.get((cell, night, failure.key), False) else "new",
            "quarantine": failure.quarantine,
        }

    def check(self, check: CheckStory) -> dict[str, Any]:
        return {
            "check": self.checks[check.title],
            "outcome": check.outcome,
            **self.judged(check),
            "history": check.history,
            "reason": self.message(check.reason) if check.reason else -1,
        }

    def judged(self, story: CellStory | CheckStory) -> dict[str, Any]:
        """Return what is said of a cell and of a check alike."""
        return {
            "habit": story.habit,
            "news": story.news,
            "streak": story.streak,
            "since": self.range(story.since),
            "flaky": {**asdict(story.flaky), "enough": story.flaky.enough},
        }

    def message(self, text: str, headline: str = "") -> int:
        """Return the number of a text whose first line says what went wrong."""
        return self.messages[shortened_below(headline, text, MOST_MESSAGE)]

    def range(self, commit_range: Range | None) -> dict[str, Any] | None:
        if commit_range is None:
            return None
        good, bad = commits(self.analysis.nights, commit_range)
        url = compare_url(self.analysis.nights[commit_range.bad], good, bad)
        return {
            "good": commit_range.good,
            "bad": commit_range.bad,
            "good_commit": good,
            "bad_commit": bad,
            "url": url,
            "between": commit_range.between,
        }

    def cluster_list(self) -> list[dict[str, Any]]:
        return [
            {
                "signature": cluster.signature,
                "message": self.message(cluster.message, cluster.headline),
                "blames": dict(cluster.blames),
                "what": list(cluster.titles),
                "cells": [self.places[cell] for cell in cluster.cells],
                "now": [self.places[cell] for cell in cluster.now],
                "runs": cluster.runs,
                "first": cluster.first,
                "last": cluster.last,
            }
            for cluster in self.analysis.clusters[:MOST_CLUSTERS]
        ]

    def explained(self, explained: Explained) -> dict[str, Any]:
        return {
            "cells": [self.places[cell] for cell in explained.cells],
            "what": [title for title, _ in explained.keys],
            "chance": round(explained.chance, 3),
            "since": since_of(self.analysis, explained),
            "culprit": culprit_of(self.analysis, explained),
            "named": explained.named is not None,
            "by_chance": explained.by_chance,
            "suspects": [
                {
                    "values": [{"axis": axis, "value": value} for axis, value in suspect.values],
                    "share": round(suspect.share, 3),
                    "evidence": suspect.evidence,
                    "around": suspect.around,
                }
                for suspect in explained.suspects[:SHOWN]
            ],
        }

    def symptoms(self) -> dict[str, Any]:
        """Return the symptoms of the last night's cells, those of most cells first, and those that nobody sees."""
        night, known = self.analysis.last, {symptom.name: symptom for symptom in self.analysis.planned.symptoms}
        lines_by_symptom: dict[str, dict[int, str]] = {}
        for cell, record in (night.cells if night is not None else {}).items():
            for name, line in record.symptoms.items():
                lines_by_symptom.setdefault(name, {})[self.places[cell]] = line
        rows = [
            {
                "name": name,
                "means": meaning(known[name]) if name in known else "",
                "cells": list(cells),
                "line": next(iter(cells.values())),
            }
            for name, cells in sorted(lines_by_symptom.items(), key=lambda row: (-len(row[1]), row[0]))
        ]
        return {"seen": rows, "idle": list(self.analysis.idle_symptoms)}

    def slower(self, slower: Slower) -> dict[str, Any]:
        return {"cell": self.places[slower.cell], "step": slower.step, **(trend(slower.trend) or {})}

    def quarantined(self, quarantined: Quarantined) -> dict[str, Any]:
        return {
            **quarantined.entry.model_dump(mode="json", exclude={"where"}),
            "cell": quarantined.entry.cells,
            "check": quarantined.entry.check or "",
            "days_left": quarantined.days_left,
            "cells": [self.places[cell] for cell in quarantined.cells],
            "failed": quarantined.failed,
            "ran": quarantined.ran,
            "stale": quarantined.stale,
        }

    def coverage(self) -> dict[str, Any]:
        totals = self.analysis.coverage
        return {
            **asdict(totals.cells),
            "pairs": asdict(totals.pairs),
            "axes": [
                {"name": axis, "values": [{"value": value, **asdict(c)} for value, c in values.items()]}
                for axis, values in totals.values.items()
            ],
        }
