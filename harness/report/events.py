"""From the lines of results.jsonl that are about one cell to its steps, checks and attempts.

Does not know runs or quarantine; results does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.report.cell import CellResult
from harness.report.step import FAILED, PASSED, TEARDOWN, UNFINISHED, Check, Step, WorkerAssignment
from harness.rundir import RunDir
from harness.validate.performance.figures import carried_in

Event = dict[str, Any]
ENDS_KEEPING = {TEARDOWN, "worker"}  # steps after which nothing of a cell is left: a lost worker's remains are reaped


def seconds_between(start: str, end: str) -> float:
    """Return the seconds from one RFC 3339 moment to another, 0 when the clock was set back."""
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def was_kept(events: list[Event]) -> bool:
    """Tell whether a cell was kept and no later attempt took it away: a teardown is of all attempts of a cell."""
    kept = False
    for event in events:
        if event["event"] == "kept":
            kept = True
        elif event["event"] == "step-end" and event["step"][-1] in ENDS_KEEPING:
            kept = False
    return kept


def cell_result(cell: str, run_dir: Path, events: list[Event]) -> CellResult:
    """Return one cell from its events.

    Each event has in `since` when its call of the run began, and in `signalled` whether the call had been told to end.
    """
    steps = _steps(events)
    failed = [s for s in steps if s.outcome == FAILED]
    # an inner step's failure is its parents' too: show the innermost, once
    inner = tuple(s for s in failed if not any(_inside(other, s) for other in failed))
    last_call = [e for e in events if e["since"] == events[-1]["since"]]
    admitted = next((_admitted(e) for e in reversed(last_call) if e["event"] == "admitted"), None)
    cut = frozenset(int(e["attempt"]) for e in events if e["signalled"] and e.get("step") == [TEARDOWN])
    return CellResult(
        cell,
        str(RunDir(run_dir).attempt(cell).path),
        steps,
        _checks(events),
        inner,
        admitted,
        cut,
        was_kept(events),
        _usage(events),
    )


def _usage(events: list[Event]) -> dict[str, dict[str, int]]:
    """Return what machines took in the last attempt, if that was measured; of two accounts of it, the later."""
    told = [e for e in events if e["event"] == "usage"]
    last = max((int(e["attempt"]) for e in events if "attempt" in e), default=0)
    return next((dict(e["took"]) for e in reversed(told) if int(e["attempt"]) == last), {})


def _inside(inner: Step, outer: Step) -> bool:
    depth = len(outer.path)
    return inner.attempt == outer.attempt and len(inner.path) > depth and inner.path[:depth] == outer.path


def _admitted(event: Event) -> WorkerAssignment:
    return WorkerAssignment(
        worker=event.get("worker", ""),
        after=seconds_between(event["since"], event["time"]),
        expected=float(event.get("expected", 0.0)),
        source=event.get("source", ""),
    )


def _checks(events: list[Event]) -> tuple[Check, ...]:
    """Return checks in the order in which they ended; one that passed and then failed to clean up has failed."""
    found: list[Check] = []
    for event in events:
        if event["event"] != "check":
            continue
        check = _check(event)
        before = found[-1] if found else None
        if before is not None and (before.outcome, check.outcome) == (PASSED, FAILED) and _same(before, check):
            check = replace(check, seconds=before.seconds + check.seconds)
            found.pop()
        found.append(check)
    return tuple(found)


def _same(one: Check, other: Check) -> bool:
    return (one.attempt, one.stage, one.title) == (other.attempt, other.stage, other.title)


def _check(event: Mapping[str, Any]) -> Check:
    return Check(
        name=event["name"],
        suite=event["suite"],
        outcome=event["outcome"],
        seconds=float(event["seconds"]),
        blame=event.get("blame", ""),
        detail=event.get("detail", ""),
        stage=event.get("stage", ""),
        attempt=int(event.get("attempt", 1)),
        measured=str(event.get("properties", {}).get("measured", "")),
        parts=tuple(map(str, event.get("properties", {}).get("not_judged", ()))),
        figures=carried_in(event.get("properties", {})),
    )


def _steps(events: list[Event]) -> tuple[Step, ...]:
    """Return steps in the order in which they began; one without an end is unfinished.

    A step may come twice in an attempt: a teardown that was interrupted or failed is tried again.
    """
    found: list[Step] = []
    under_way: dict[tuple[int, tuple[str, ...]], int] = {}
    for event in events:
        if event["event"] not in ("step-start", "step-end"):
            continue
        key = int(event["attempt"]), tuple(event["step"])
        if event["event"] == "step-start":
            under_way[key] = len(found)
            found.append(Step(path=key[1], attempt=key[0], outcome=UNFINISHED, seconds=0.0))
        elif key in under_way:
            found[under_way.pop(key)] = _ended(key, event)
    return tuple(found)


def _ended(key: tuple[int, tuple[str, ...]], event: Mapping[str, Any]) -> Step:
    return Step(
        path=key[1],
        attempt=key[0],
        outcome=event.get("outcome", UNFINISHED),
        seconds=float(event.get("seconds", 0.0)),
        blame=event.get("blame", ""),
        summary=event.get("summary", ""),
        hint=event.get("hint", ""),
        detail=event.get("detail", ""),
        paths=tuple(event.get("paths", ())),
        exit_code=int(event.get("exit_code", 0)),
    )
