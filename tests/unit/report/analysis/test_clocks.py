"""Clocks of runners that differ: whatever compares times of several hosts says the same as if they had one clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.history.lines import History, once
from harness.history.record import Record
from harness.report.alerts import alerts_of
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.output.document import document, since_of
from harness.report.records import records_of
from harness.report.suspects import of_night
from tests.unit.report.written import START, Written

UNBEGUN = "c9"  # no job came to it
HOUR, DAY = 3600.0, 86400.0
NIGHTS, CELLS = 4, ("c1", "c2", "c3", "c4")
NOW = START + timedelta(days=NIGHTS - 1, hours=6)
FIRST_BAD = 3  # night from which on cells of crio fail
# By how much the clocks of two runners are ahead of GitLab's, each in nights of its own.
CLOCKS: Mapping[str, tuple[float, float]] = {
    "as one": (0.0, 0.0),
    "hours ahead": (7 * HOUR, 0.0),
    "hours behind": (0.0, -9 * HOUR),
    "ahead and behind": (5 * HOUR, -5 * HOUR),
    "more than a night": (30 * HOUR, -30 * HOUR),
    "years ahead": (4000 * DAY, 0.0),
    "years behind": (-4000 * DAY, 0.0),
}


def written(folder: Path, night: int, job: int, ahead: float, cells: Mapping[str, str], begun: float = 0.0) -> Path:
    """Write what a job of a night ran, by the clock of its host; `cells`: what their check came to."""
    folder.mkdir(parents=True)
    run = Written(folder, night * DAY + begun + ahead)
    where = {"pipeline": str(100 + night), "job": str(job), "commit": f"{night:040x}", "ahead": ahead}
    values = {cell: {"runtime": "crio" if cell in CELLS[:2] else "containerd", "ip": cell} for cell in cells}
    run.event(
        "run-start", run=f"r{job:05}", cells=[*cells, UNBEGUN], tier="nightly", values=values, where=where, infra="i"
    )
    for cell, outcome in cells.items():
        run.step(cell, "provision", seconds=60.0).step(cell, "deploy", seconds=600.0)
        blame = {"blame": "product", "detail": "E no answer"} if outcome == "failed" else {}
        run.check(cell, outcome=outcome, **blame).gone(cell)
    run.end(0)
    return folder


def records(folder: Path, clocks: tuple[float, float]) -> tuple[Record, ...]:
    """Return four nights of two shards each, whose runners swap; in the last one, a job is retried elsewhere."""
    found: list[Record] = []
    for night in range(NIGHTS):
        bad = "failed" if night >= FIRST_BAD else "passed"
        shards: list[dict[str, str]] = [{CELLS[0]: bad, CELLS[2]: "passed"}, {CELLS[1]: bad, CELLS[3]: "passed"}]
        for shard, cells in enumerate(shards):
            ahead = clocks[(night + shard) % 2]
            found += records_of(written(folder / f"{night}-{shard}", night, 10 * night + shard, ahead, cells))
    again, last = {CELLS[2]: "failed"}, NIGHTS - 1
    ahead = clocks[(last + 1) % 2]
    found += records_of(written(folder / "retried", last, 10 * last + 2, ahead, again, begun=2 * HOUR))
    return once(found)


def judged(folder: Path, clocks: tuple[float, float]) -> Analysis:
    return analyse(records(folder, clocks), Planned(every_hours=24.0), RecordFilter(days=30.0), NOW)


def near(moment: str) -> datetime:
    """Return the hour of a moment: a clock that is corrected is so by seconds."""
    return datetime.fromisoformat(moment).astimezone(UTC).replace(minute=0, second=0, microsecond=0)


# Every place that compares times of different hosts, and what it comes to.
PLACES: Mapping[str, Callable[[Analysis], Any]] = {
    "order of nights": lambda a: [night.key for night in a.nights],
    "begin and end of nights": lambda a: [(near(n.started), near(n.finished)) for n in a.nights],
    "which record of a retried job counts": lambda a: a.nights[-1].cells[CELLS[2]].outcome,
    "outcomes of nights": lambda a: [night.counts for night in a.nights],
    "freshness": lambda a: (a.freshness.hours_ago, a.freshness.stale, a.freshness.missing),
    "since which night a cell fails": lambda a: {c.id: (c.since.good, c.since.bad) for c in a.cells if c.since},
    "streaks and habits": lambda a: {c.id: (c.streak, c.habit, c.news) for c in a.cells},
    "suspects": lambda a: [(one.keys, one.cells, one.named and one.named.values) for one in a.suspects],
    "since which commit a suspect fails": lambda a: [since_of(a, one) for one in a.suspects],
    "hours of the night": lambda a: [sorted(one.around) for n in a.nights for one in of_night(n)],
    "alerts": lambda a: alerts_of(a, infra_rate=0.1),
    "durations": lambda a: {c.id: [(s.name, s.seconds) for s in c.steps] for c in a.cells},
    "slower than usual": lambda a: a.slower,
    "against the nights before": lambda a: a.worse,
    "the week's coverage": lambda a: a.week,
    "what a pipeline is compared with": lambda a: [
        night.key
        for night in analyse(
            [r for n in a.nights for r in n.cells.values()], a.planned, RecordFilter(focus="102"), NOW
        ).nights
    ],
    "the page": lambda a: [cell["outcomes"] for cell in document(a, History())["cells"]],
}


@pytest.fixture(scope="module")
def analyses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Analysis]:
    """The same nights, by every pair of clocks."""
    return {name: judged(tmp_path_factory.mktemp("clocks"), clocks) for name, clocks in CLOCKS.items()}


def test_the_nights_say_what_was_played(analyses: Mapping[str, Analysis]) -> None:
    found = analyses["as one"]
    assert [night.key for night in found.nights] == ["100", "101", "102", "103"]
    assert {c.id: (c.since.good, c.since.bad) for c in found.cells if c.since}[CELLS[0]] == (FIRST_BAD - 1, FIRST_BAD)
    assert found.nights[-1].cells[CELLS[2]].outcome == "failed"
    assert found.freshness.hours_ago == 6.0
    assert [one.named.said for one in found.suspects if one.named] == ["runtime crio"]
    assert len(alerts_of(found, infra_rate=0.1)) == 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("clocks", [name for name in CLOCKS if name != "as one"])
def test_no_clock_of_a_runner_changes_what_is_said(analyses: Mapping[str, Analysis], place: str, clocks: str) -> None:
    assert PLACES[place](analyses[clocks]) == PLACES[place](analyses["as one"])
