"""Records for tests, with what a test does not care about filled in."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from harness.history.record import OUTCOMES, AttemptRecord, CheckNote, CheckRow, CheckTable, Record, RunOrigin
from harness.model import Outcome
from tests.unit.history.synthetic import NOW

CELL = "k1363-d13-fresh-000001"


def moment(at: datetime) -> str:
    """Return a moment as records have it."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record(
    night: int = 0, cell: str = CELL, *, of: int = 1, outcome: str = "passed", blame: str = "", **more: Any
) -> Record:
    """Return a cell's record of a night; the last of `of` nights began eight hours ago."""
    at = NOW - timedelta(days=of - 1 - night, hours=8)
    run = f"run{night:03d}"
    given: dict[str, Any] = {
        "id": f"{at:%Y%m%d}.{run}.{cell}.1",
        "run": run,
        "cell": cell,
        "started": moment(at),
        "finished": moment(at + timedelta(minutes=5)),
        "outcome": Outcome(outcome),
        "blame": blame or ("product" if outcome == "failed" else ""),
        "axes": {"kubernetes": "1.36.3", "topology": "cp1-w1"},
        "tier": "nightly",
        "infra": "embedded",
        "seconds": 300.0,
        "attempts": () if outcome == "not started" else (AttemptRecord(1, Outcome(outcome), 300.0),),
        "where": RunOrigin(
            commit=f"{night:040x}", branch="main", pipeline=str(100 + night), project_url="https://lab.invalid/p"
        ),
        **more,
    }
    return Record(**given)


def checked(made: Record, results: dict[str, str], said: str = "E  it is broken") -> Record:
    """Return a record with checks: a letter (p f s q) by title."""
    notes = tuple(
        CheckNote((title,), said, OUTCOMES[letter], stage="deploy", attempt=made.last_attempt, blame="product")
        for title, letter in results.items()
        if letter != "p"
    )
    table = CheckTable(tuple(results), (CheckRow("deploy", "".join(results.values()), made.last_attempt),))
    return replace(made, checks=table, notes=notes)


def checks_in(made: Record) -> list[tuple[str, str, int, str, str]]:
    """Return title, stage, attempt, outcome and message of every check of a record, in the order of its run."""
    notes = {(n.attempt, n.stage, title): n.message for n in made.notes for title in n.checks}
    return [
        (title, row.stage, row.attempt, OUTCOMES[letter], notes.get((row.attempt, row.stage, title), ""))
        for row in made.checks.rows
        for title, letter in zip(made.checks.names, row.results, strict=True)
        if letter in OUTCOMES
    ]
