"""Damaged results: each field of each kind of event missing, of another kind, or of a later version.

Whatever it is, every reader reads on; the runs beside it are read; what becomes a record can be read again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.events import NEEDED, Follower
from harness.gitlab.job_end import process_of
from harness.history.record import from_line, to_line
from harness.report import junit, records, summary, terminal
from harness.report.live import Live
from harness.report.records import collect, records_of
from harness.report.results import load
from harness.report.suspects import explained, lines_of, of_run
from harness.rundir import RESULTS
from harness.streams import plain_console

CELL = "k1363-fresh"
NOW = "2026-11-23T10:00:00.000Z"
STEP = {"cell": CELL, "attempt": 1, "step": ["deploy"]}
START = {
    "run": "abcdef", "tier": "nightly", "night": "2026-11-23", "together": [["os", "ip"]], "command": "vmatrix run",
    "cleanup": "vmatrix reap", "cells": [CELL], "parallel": 1, "pid": 99999999, "values": {CELL: {"os": "debian-13"}},
    "infra": "embedded", "provider": "embedded", "where": {"commit": "a" * 40, "ahead": 90.0}, "logs": "runs/abcdef",
}  # fmt: skip
# One of each kind that vmatrix writes, with all that it writes there.
EVENTS: tuple[dict[str, Any], ...] = (
    {"event": "run-start", **START},
    {"event": "product", "name": "kubespray", "said": "kubespray v2"},
    {"event": "left-out", "cell": "k1363-other"},
    {"event": "admitted", "cell": CELL, "attempt": 1, "worker": "gw0", "expected": 95, "source": "the median"},
    {"event": "placed", "cell": CELL, "attempt": 1, "around": {"node a": "used", "host load": "high"}},
    {"event": "step-start", **STEP},
    {"event": "progress", "cell": CELL, "said": "task 1"},
    {"event": "step-end", **STEP, "outcome": "failed", "seconds": 4.5, "blame": "product", "exit_code": 1,
     "summary": "no", "hint": "look", "paths": ["a.log"], "detail": "more"},
    {"event": "check", "cell": CELL, "attempt": 1, "stage": "deploy", "name": "test_a", "suite": "nodes",
     "outcome": "failed", "seconds": 0.5, "blame": "product", "detail": "no", "claim": "it is", "look": "log",
     "command": "ls", "error": "no", "infra": "node a went away",
     "findings": [{"kind": "wrong", "where": "cp-0", "expected": "a", "observed": "b", "controls": ["1.1"]}],
     "properties": {"measured": "5 s", "not_judged": ["x"], "figures": [["dns_rate", "w-0", 10.0, 0.5]]}},
    {"event": "usage", "cell": CELL, "attempt": 1, "took": {"cp-0": {"memory": 2048, "peak": 1029}}},
    {"event": "kept", "cell": CELL, "attempt": 1, "said": "kept"},
    {"event": "infra", "said": "a pod ended"},
    {"event": "own-checks-broken", "summary": "no"},
    {"event": "signal", "number": 15},
    {"event": "run-error", "blame": "infra", "exit_code": 3, "summary": "no", "hint": "", "paths": [], "detail": ""},
    {"event": "symptoms", "given_up": ["slow"],
     "sightings": [{"cell": CELL, "name": "full", "count": 2, "line": "no space", "file": "a.log", "means": "full"}]},
    {"event": "follow-up", "cells": ["k1363-more"], "no_further": ["enough"]},
    {"event": "culprit", "cell": CELL, "suspect": {"os": "debian-13"}, "checks": ["deploy"], "commit": "abc",
     "title": "abc x", "author": "A", "date": "2026-11-20", "owners": ["@a"], "paths": ["a"], "unknown": ""},
    {"event": "run-end", "exit_code": 1, "signal": 15, "not_run": {CELL: 3}},
    {"event": "report-failed", "path": "summary.md", "said": "no"},
    {"event": "rerun-start", **START},
    {"event": "job-end", "job": "7"},
)  # fmt: skip
DEEP: Any = [[[[{}]]]]
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 0.5, 10**30, 10**400, float("nan"), float("inf"), "", "x", "9" * 400, "a\ud800", [], ["x"], [5],
    [[]], [{}], {}, {"x": 5}, {"x": {}}, {"x": {"y": 5}}, {"x": ["y"]}, {CELL: 5}, {CELL: {"os": 5}}, DEEP,
    "0001-01-01T00:00:00+05:00", "1970-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "2026-11-23T10:00:00",
)  # fmt: skip


def run_with(folder: Path, events: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"time": NOW, **event}) for event in events]
    (folder / RESULTS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def read_on(run: Path) -> None:
    """Read a run with all that reads one."""
    result = load(run)
    assert summary.render(result)
    assert junit.render(result)
    console = plain_console(file=io.StringIO())
    terminal.show(result, console)
    terminal.show_checks(result, console)
    assert all(lines_of(one) for one in explained(of_run(result)))
    assert process_of(run) is None
    live = Live(console, gitlab=False, parallel=True)
    for event in Follower(run).read():
        live.on_event(event)
    for record in records_of(run):
        assert from_line(to_line(record)) == record


def damaged(event: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield a field, and what is written in place of the event: it without the field; with any value in it."""
    for name in ("time", *event):
        if name != "time":
            yield f"without {name}", [{key: value for key, value in event.items() if key != name}]
        later = [{**event[name], "later": 5}] if isinstance(event.get(name), dict) else []
        yield name, [{**event, name: value} for value in (*VALUES, *later)]


def test_the_kinds_of_events_are_all_here() -> None:
    assert {event["event"] for event in EVENTS} >= NEEDED.keys()
    assert all(event.keys() >= set(NEEDED.get(event["event"], ())) for event in EVENTS)


def test_none_of_them_is_damaged_before(tmp_path: Path) -> None:
    run = run_with(tmp_path, list(EVENTS))
    assert load(run).foreign == ()
    read_on(run)
    (record,) = records_of(run)
    assert (record.outcome, record.where.commit, record.usage["cp-0"].peak) == ("failed", "a" * 40, 1029)


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=[event["event"] for event in EVENTS])
def test_an_event_with_any_damage_is_read_past_or_read_by_every_reader(tmp_path: Path, number: int) -> None:
    for what, instead in damaged(EVENTS[number]):
        try:
            read_on(run_with(tmp_path, [*EVENTS[:number], *instead, *EVENTS[number + 1 :]]))
        except Exception as error:
            raise AssertionError(what) from error


@pytest.mark.parametrize("value", [10**400, float("nan"), -1], ids=["huge", "NaN", "negative"])
def test_a_damaged_run_is_named_and_those_beside_it_are_read(tmp_path: Path, value: float) -> None:
    wrong = [{**event, "seconds": value} if "seconds" in event else event for event in EVENTS]
    run_with(tmp_path / "bad000", wrong)
    run_with(tmp_path / "good00", [{**event, "run": "good00"} if "run" in event else event for event in EVENTS])
    (tmp_path / "empty0").mkdir()
    (tmp_path / "empty0" / RESULTS).touch()
    found = collect([tmp_path], quarantine=())
    assert [(record.run, record.outcome) for record in found.records] == [
        ("abcdef", "unfinished"),
        ("good00", "failed"),
    ]
    assert [(Path(one.source).parent.name, one.line) for one in found.skipped] == [("bad000", 8), ("bad000", 9)]


@pytest.mark.parametrize("error", [OverflowError, ZeroDivisionError, KeyError, ValueError, OSError, AttributeError])
def test_a_run_that_cannot_become_records_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    run_with(tmp_path / "bad000", list(EVENTS))
    run_with(tmp_path / "good00", list(EVENTS))

    def failing(run: Path, **_: Any) -> Any:
        if run.name == "bad000":
            raise error("damage")
        return records_of(run)

    monkeypatch.setattr(records, "records_of", failing)
    found = collect([tmp_path], quarantine=())
    assert len(found.records) == 1
    assert [Path(one.source).parent.name for one in found.skipped] == ["bad000"]
