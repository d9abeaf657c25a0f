"""The analysis as one JSON document, small enough to lie inside a page; docs/report.md describes it.

Texts are as they were said: whoever shows them escapes them. What is the same for many nights is said once, by number.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from itertools import count
from typing import Any

from harness.history.lines import History
from harness.history.record import cut, telling
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.checks import CheckStory
from harness.report.analysis.failures import Failure
from harness.report.analysis.planned import Quarantined
from harness.report.analysis.story import CellStory, Slower
from harness.report.analysis.streaks import Range
from harness.report.output import pieces
from harness.report.output.figures import figures, kinds_of, series
from harness.report.output.numbers import commits, compare_url, summary

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
        self.axes = pieces.axes(analysis)
        self.kinds = kinds_of(analysis)
        self.places = {cell.id: number for number, cell in enumerate(analysis.cells)}
        shown = analysis.clusters[:MOST_CLUSTERS]
        self.clusters = {cluster.signature: number for number, cluster in enumerate(shown)}

    def whole(self) -> dict[str, Any]:
        found = self.analysis
        fresh = found.freshness
        cells = [self.cell(cell) for cell in found.cells]
        clusters = self.cluster_list()
        return {
            "v": VERSION,
            "title": self.title,
            "generated": found.now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "selection": {name: getattr(found.selection, name) for name in SELECTION},
            "freshness": {**asdict(fresh), "missing": [day.isoformat() for day in fresh.missing]},
            "axes": [{"name": name, "values": list(values)} for name, values in self.axes.items()],
            "nights": [pieces.night(night) for night in found.nights],
            "summary": summary(found),
            "cells": cells,
            "checks": list(self.checks),
            "messages": list(self.messages),
            "clusters": clusters,
            "not_run": [{"cell": self.places[n.cell], "last": n.last, "why": n.why} for n in found.not_run],
            "slower": [self.slower(slower) for slower in found.slower],
            "figures": figures(found, self.places),
            "quarantine": [self.quarantined(entry) for entry in found.quarantine],
            "coverage": self.coverage(),
            "history": pieces.history(self.history),
        }

    def cell(self, cell: CellStory) -> dict[str, Any]:
        numbers = range(len(self.analysis.nights))
        records = [cell.records.get(number) for number in numbers]
        last = cell.last
        return {
            "id": cell.id,
            "values": [pieces.index(values, cell.axes.get(axis)) for axis, values in self.axes.items()],
            "planned": cell.planned,
            "outcomes": "".join(OUTCOMES.get(r.outcome, ABSENT) if r is not None else ABSENT for r in records),
            "blames": "".join(BLAMES.get(r.blame, NOBODY) if r is not None else NOBODY for r in records),
            "seconds": [pieces.rounded(r.seconds) if r is not None else None for r in records],
            "jobs": [r.where.job if r is not None else "" for r in records],
            "steps": [
                {"name": s.name, "seconds": [pieces.rounded(x) for x in s.seconds], "trend": pieces.trend(s.trend)}
                for s in cell.steps
            ],
            "trend": pieces.trend(cell.trend),
            "figures": series(cell, self.kinds),
            "last": {"night": cell.last_night, "outcome": last.outcome, "blame": last.blame} if last else None,
            **self.judged(cell),
            "failures": [
                {"night": night, "items": [self.failure(cell.id, night, f) for f in found]}
                for night, found in sorted(cell.failures.items())
            ],
            "attempts": {str(n): pieces.attempts(r) for n, r in cell.records.items() if len(r.attempts) > 1},
            "logs": {
                str(n): pieces.logs(r)
                for n, r in cell.records.items()
                if r.logs and (r.outcome != "passed" or n == cell.last_night)
            },
            "checks": [self.check(check) for check in cell.checks.stories],
            "passed_checks": [self.checks[title] for title in cell.checks.passed],
            "not_run_checks": [[self.checks[title], self.message(why)] for title, why in cell.checks.not_run.items()],
            "command": pieces.reproduce(cell.id, last),
        }

    def failure(self, cell: str, night: int, failure: Failure) -> dict[str, Any]:
        return {
            "check": self.checks[failure.title] if failure.check else -1,
            "step": "" if failure.check else failure.title,
            "stage": failure.stage,
            "blame": failure.blame,
            "message": self.message(failure.message, (failure.title,)),
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

    def message(self, text: str, titles: tuple[str, ...] = ()) -> int:
        """Return the number of a text whose first line says what went wrong."""
        line = telling(text, titles)
        first = text.strip().partition("\n")[0]
        return self.messages[cut(text if first == line else f"{line}\n\n{text}", MOST_MESSAGE)]

    def range(self, found: Range | None) -> dict[str, Any] | None:
        if found is None:
            return None
        good, bad = commits(self.analysis.nights, found)
        url = compare_url(self.analysis.nights[found.bad], good, bad)
        return {
            "good": found.good,
            "bad": found.bad,
            "good_commit": good,
            "bad_commit": bad,
            "url": url,
            "between": found.between,
        }

    def cluster_list(self) -> list[dict[str, Any]]:
        return [
            {
                "signature": cluster.signature,
                "message": self.message(cluster.message, cluster.titles),
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

    def slower(self, slower: Slower) -> dict[str, Any]:
        return {"cell": self.places[slower.cell], "step": slower.step, **(pieces.trend(slower.trend) or {})}

    def quarantined(self, found: Quarantined) -> dict[str, Any]:
        return {
            **found.entry.model_dump(mode="json"),
            "check": found.entry.check or "",
            "days_left": found.days_left,
            "cells": [self.places[cell] for cell in found.cells],
            "failed": found.failed,
            "ran": found.ran,
            "stale": found.stale,
        }

    def coverage(self) -> dict[str, Any]:
        found = self.analysis.coverage
        return {
            **asdict(found.cells),
            "pairs": asdict(found.pairs),
            "axes": [
                {"name": axis, "values": [{"value": value, **asdict(c)} for value, c in values.items()]}
                for axis, values in found.values.items()
            ],
        }
