"""A run's results.jsonl as frozen dataclasses: when it ran, its cells, their attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.plan.quarantine import match
from harness.recorded import recorded
from harness.report.cell import CellResult
from harness.report.events import Event, cell_result, seconds_between, was_kept
from harness.report.step import FAILED, OUTCOMES, TEARDOWN, Check, Step
from harness.spec.models import QuarantineEntry

LEFT_OUT = "left-out"  # event of a cell of which nothing was selected

STARTS = ("run-start", "rerun-start")


@dataclass(frozen=True)
class Session:
    """One call of a run: the first one, or a rerun of what had failed.

    seconds: from its start to its last event.  parallel: how many cells could be under way at once.
    exit_code: None when it was killed, or is still under way.
    """

    started: str
    seconds: float
    command: str
    cells: int
    parallel: int
    exit_code: int | None


@dataclass(frozen=True)
class RunResult:
    """A run: its id, how it was started, its cells in plan order, its exit code (None when it was killed).

    kept: ids of failed cells that were left as they were and not taken away since.
    error: what ended the run outside of any cell, empty without.
    signal: the number of the one that ended the last call, 0 without.
    not_run: of a call that a signal ended, how many steps and checks of each cell it did not get to.
    infra: what became of parts of the infra cluster that ended meanwhile, a sentence each.
    product: what was tested, where its sources are no part of the project; empty otherwise.
    foreign: the lines of its results file that no run wrote; they are read past.
    values: the value of each cell on every axis.
    """

    run: str
    directory: Path
    cleanup: str
    cells: tuple[CellResult, ...]
    sessions: tuple[Session, ...] = ()
    tier: str | None = None
    kept: frozenset[str] = frozenset()
    error: str = ""
    signal: int = 0
    not_run: Mapping[str, int] = field(default_factory=dict)
    product: str = ""
    infra: tuple[str, ...] = ()
    foreign: tuple[int, ...] = ()
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def started(self) -> str:
        """Return when the run started first, RFC 3339."""
        return self.sessions[0].started if self.sessions else ""

    @property
    def command(self) -> str:
        """Return the last call."""
        return self.sessions[-1].command if self.sessions else ""

    @property
    def parallel(self) -> int:
        """Return how many cells could be under way at once in the last call."""
        return self.sessions[-1].parallel if self.sessions else 1

    @property
    def exit_code(self) -> int | None:
        """Return the last call's exit code."""
        return self.sessions[-1].exit_code if self.sessions else None

    @property
    def outcomes(self) -> dict[str, int]:
        """Return how many cells had which outcome, the worst first."""
        counts = Counter(cell.outcome for cell in self.cells)
        return {word: counts[word] for word in OUTCOMES if counts[word]}


def alike(checks: Iterable[Check]) -> list[tuple[Check, tuple[Check, ...]]]:
    """Group failed checks that say the same but for their name: the first of each, and the others."""
    groups: dict[tuple[str, str, str, str], list[Check]] = {}
    for check in checks:
        body = check.detail.strip().partition("\n")[2] or check.detail
        groups.setdefault((check.suite, check.blame, check.quarantine, body), []).append(check)
    return [(first, tuple(others)) for first, *others in groups.values()]


def load(run_dir: Path, *, quarantine: Sequence[QuarantineEntry] = ()) -> RunResult:
    """Load a run's results; an empty run when nothing was written yet."""
    found = recorded(run_dir)
    events = list(found.events)
    start = next((e for e in events if e["event"] == "run-start"), {})
    ids = dict.fromkeys([*start.get("cells", []), *(e["cell"] for e in events if "cell" in e)])
    by_cell: dict[str, list[Event]] = {i: [] for i in ids}
    outside = {e["cell"] for e in events if e["event"] == LEFT_OUT} - {
        e["cell"] for e in events if "cell" in e and e["event"] != LEFT_OUT
    }
    for cell in outside:
        del ids[cell], by_cell[cell]
    calls = _calls(events)
    for call in calls:
        signalled = False
        for event in call:
            signalled = signalled or event["event"] == "signal"
            if event.get("cell") in by_cell:
                by_cell[event["cell"]].append({**event, "since": call[0]["time"], "signalled": signalled})
    last = calls[-1] if calls else []
    errors = [e.get("summary", "") for e in last if e["event"] == "run-error"]
    return RunResult(
        run=start.get("run", run_dir.name),
        directory=run_dir,
        cleanup=start.get("cleanup", ""),
        cells=tuple(excused(cell_result(i, run_dir, by_cell[i]), quarantine) for i in ids),
        sessions=tuple(_session(call) for call in calls if call[0]["event"] in STARTS),
        tier=start.get("tier"),
        kept=frozenset(i for i in ids if was_kept(by_cell[i])),
        error=errors[-1] if errors else "",
        signal=next((int(e["number"]) for e in last if e["event"] == "signal"), 0),
        not_run=next((e["not_run"] for e in last if e["event"] == "run-end" and "not_run" in e), {}),
        product=product_in(events),
        infra=tuple(str(e["said"]).partition("\n")[0] for e in last if e["event"] == "infra"),
        foreign=found.foreign,
        values={cell: of_cell for e in events for cell, of_cell in (e.get("values") or {}).items()},
    )


def product_in(events: Iterable[Mapping[str, Any]]) -> str:
    """Return which product was tested, as the run wrote it down; "" where its sources are part of the project."""
    return next((str(e["said"]) for e in reversed([*events]) if e["event"] == "product"), "")


def excused(cell: CellResult, entries: Sequence[QuarantineEntry]) -> CellResult:
    """Return the cell with the failures marked that are in quarantine."""
    today = datetime.now(UTC).date()

    def issue(check: str | None) -> str:
        entry = match(entries, cell.id, check, today)
        return entry.issue if entry is not None else ""

    def step(found: Step) -> Step:
        counts = found.outcome == FAILED and found.path[0] != TEARDOWN  # what stays behind is never excused
        return replace(found, quarantine=issue(None)) if counts else found

    def check(found: Check) -> Check:
        return replace(found, quarantine=issue(found.title)) if found.outcome == FAILED else found

    return replace(
        cell,
        steps=tuple(map(step, cell.steps)),
        failures=tuple(map(step, cell.failures)),
        checks=tuple(map(check, cell.checks)),
    )


def _calls(events: list[Event]) -> list[list[Event]]:
    """Return the events of each call of the run, the first one and every rerun."""
    calls: list[list[Event]] = []
    for event in events:
        if event["event"] in STARTS or not calls:
            calls.append([])
        calls[-1].append(event)
    return calls


def _session(call: list[Event]) -> Session:
    first, last = call[0], call[-1]
    return Session(
        started=first["time"],
        seconds=seconds_between(first["time"], last["time"]),
        command=first.get("command", ""),
        cells=len(first.get("cells", [])),
        parallel=int(first.get("parallel", 1)),
        exit_code=int(last["exit_code"]) if last["event"] == "run-end" else None,
    )
