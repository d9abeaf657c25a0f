"""A run's results.jsonl as frozen dataclasses: cells, their steps, their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.plan.quarantine import match
from harness.record import read
from harness.spec.models import QuarantineEntry

UNFINISHED = "unfinished"
QUARANTINED = "quarantined"


@dataclass(frozen=True)
class Step:
    """A step that ended, or (outcome "unfinished") was under way when the run was killed.

    path: its name and its parents', outermost first.
    quarantine: the issue of the entry that keeps a failure from counting.
    """

    path: tuple[str, ...]
    attempt: int
    outcome: str
    seconds: float
    blame: str = ""
    summary: str = ""
    hint: str = ""
    detail: str = ""
    paths: tuple[str, ...] = ()
    exit_code: int = 0
    quarantine: str = ""

    @property
    def name(self) -> str:
        """Return the step's name with its parents'."""
        return " / ".join(self.path)


@dataclass(frozen=True)
class Check:
    """One check's outcome: passed, failed or not-run.

    detail: the failure's text, or why it did not run.  stage: the phase after which it ran.
    quarantine: the issue of the entry that keeps a failure from counting.
    """

    name: str
    suite: str
    outcome: str
    seconds: float
    blame: str = ""
    detail: str = ""
    stage: str = ""
    attempt: int = 1
    quarantine: str = ""

    @property
    def title(self) -> str:
        """Return suite and name, as quarantine entries name checks."""
        return f"{self.suite}: {self.name}"


@dataclass(frozen=True)
class CellResult:
    """One cell of a run, with all its attempts. `outcome`: passed, failed, quarantined, interrupted or unfinished."""

    id: str
    directory: str
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]
    failures: tuple[Step, ...]

    @property
    def last_attempt(self) -> int:
        """Return the number of the attempt that counts."""
        return max((s.attempt for s in self.steps), default=1)

    @property
    def last_checks(self) -> tuple[Check, ...]:
        """Return the checks of the attempt that counts."""
        return tuple(c for c in self.checks if c.attempt == self.last_attempt)

    @property
    def failed_checks(self) -> tuple[Check, ...]:
        """Return the checks that failed in the attempt that counts."""
        return tuple(c for c in self.last_checks if c.outcome == "failed")

    @property
    def quarantined(self) -> bool:
        """Tell whether something failed that does not count."""
        return any(s.quarantine for s in self.failures if s.attempt == self.last_attempt) or any(
            c.quarantine for c in self.failed_checks
        )

    @property
    def seconds(self) -> float:
        """Return how long the top-level steps and the checks of all attempts took together."""
        return sum(s.seconds for s in self.steps if len(s.path) == 1) + sum(c.seconds for c in self.checks)

    @property
    def last_seconds(self) -> float:
        """Return how long the attempt that counts took."""
        steps = sum(s.seconds for s in self.steps if len(s.path) == 1 and s.attempt == self.last_attempt)
        return steps + sum(c.seconds for c in self.last_checks)

    def outcome_of(self, attempt: int) -> str:
        """Return the worst outcome of an attempt's steps and checks; what is in quarantine is not a failure."""
        steps = [s for s in self.steps if s.attempt == attempt]
        checks = [c for c in self.checks if c.attempt == attempt]
        everything: list[Step | Check] = [*steps, *checks]
        excused = any(s.outcome == "failed" and s.quarantine for s in everything)
        outcomes = {s.outcome for s in everything if not (s.outcome == "failed" and s.quarantine)}
        for word in ("failed", "interrupted", UNFINISHED):
            if word in outcomes:
                return word
        if excused:
            return QUARANTINED
        return "passed" if "passed" in {c.outcome for c in checks} else UNFINISHED

    @property
    def outcome(self) -> str:
        """Return the outcome of the attempt that counts."""
        return self.outcome_of(self.last_attempt)

    @property
    def earlier(self) -> dict[int, str]:
        """Return the outcomes of the attempts before, by their number."""
        numbers = sorted({s.attempt for s in self.steps} - {self.last_attempt})
        return {number: self.outcome_of(number) for number in numbers}


@dataclass(frozen=True)
class RunResult:
    """A run: its id, how it was started, its cells in plan order, its exit code (None when it was killed).

    parallel: how many cells could be under way at once.  kept: ids of failed cells that were left as they were.
    """

    run: str
    directory: Path
    started: str
    command: str
    cleanup: str
    cells: tuple[CellResult, ...]
    exit_code: int | None
    tier: str | None = None
    parallel: int = 1
    kept: frozenset[str] = frozenset()


def alike(checks: tuple[Check, ...]) -> list[tuple[Check, tuple[str, ...]]]:
    """Group failed checks that say the same but for their name: the first of each, and the names of the others."""
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for check in checks:
        body = check.detail.strip().partition("\n")[2] or check.detail
        groups.setdefault((check.suite, check.blame, body), []).append(check)
    return [(first, tuple(c.name for c in others)) for first, *others in groups.values()]


def load(run_dir: Path, *, quarantine: Sequence[QuarantineEntry] = ()) -> RunResult:
    """Load a run's results; an empty run when nothing was written yet."""
    events = read(run_dir)
    start = next((e for e in events if e["event"] == "run-start"), {})
    again = [e for e in events if e["event"] == "rerun-start"]
    end: Mapping[str, Any] = next(
        (e for e in reversed(events) if e["event"] in ("run-end", "rerun-start", "run-start")), {}
    )
    ids = list(dict.fromkeys([*start.get("cells", []), *(e["cell"] for e in events if "cell" in e)]))
    by_cell: dict[str, list[dict[str, Any]]] = {i: [] for i in ids}
    for event in events:
        if "cell" in event:
            by_cell[event["cell"]].append(event)
    return RunResult(
        run=start.get("run", run_dir.name),
        directory=run_dir,
        started=start.get("time", ""),
        command=(again[-1] if again else start).get("command", ""),
        cleanup=start.get("cleanup", ""),
        cells=tuple(excused(_cell(i, run_dir, by_cell[i]), quarantine) for i in ids),
        exit_code=int(end["exit_code"]) if end.get("event") == "run-end" else None,
        tier=start.get("tier"),
        parallel=int((again[-1] if again else start).get("parallel", 1)),
        kept=frozenset(e["cell"] for e in events if e["event"] == "kept"),
    )


def excused(cell: CellResult, entries: Sequence[QuarantineEntry]) -> CellResult:
    """Return the cell with the failures marked that are in quarantine."""
    if not entries or not (cell.failures or cell.failed_checks):
        return cell
    today = datetime.now(UTC).date()

    def issue(check: str | None) -> str:
        entry = match(entries, cell.id, check, today)
        return entry.issue if entry is not None else ""

    steps = {s: replace(s, quarantine=issue(None)) if s.outcome == "failed" else s for s in cell.steps}
    checks = [replace(c, quarantine=issue(c.title)) if c.outcome == "failed" else c for c in cell.checks]
    return replace(
        cell, steps=tuple(steps.values()), failures=tuple(steps[s] for s in cell.failures), checks=tuple(checks)
    )


def _cell(cell: str, run_dir: Path, events: list[dict[str, Any]]) -> CellResult:
    steps = _steps(events)
    checks = tuple(_check(e) for e in events if e["event"] == "check")
    failed = [s for s in steps if s.outcome == "failed"]
    # an inner step's failure is its parents' too: show the innermost, once
    inner = tuple(
        s
        for s in failed
        if not any(o is not s and o.attempt == s.attempt and o.path[: len(s.path)] == s.path for o in failed)
    )
    return CellResult(cell, str(run_dir / cell), steps, checks, inner)


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
    )


def _steps(events: list[dict[str, Any]]) -> tuple[Step, ...]:
    """Return steps in the order in which they began; one without an end is unfinished."""
    ended = {_key(e): e for e in events if e["event"] == "step-end"}
    found = []
    for event in events:
        if event["event"] != "step-start":
            continue
        end: Mapping[str, Any] = ended.get(_key(event), {})
        found.append(
            Step(
                path=tuple(event["step"]),
                attempt=int(event["attempt"]),
                outcome=end.get("outcome", UNFINISHED),
                seconds=float(end.get("seconds", 0.0)),
                blame=end.get("blame", ""),
                summary=end.get("summary", ""),
                hint=end.get("hint", ""),
                detail=end.get("detail", ""),
                paths=tuple(end.get("paths", ())),
                exit_code=int(end.get("exit_code", 0)),
            )
        )
    return tuple(found)


def _key(event: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    return int(event["attempt"]), tuple(event["step"])
