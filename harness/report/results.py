"""A run's results.jsonl as frozen dataclasses: cells, their steps, their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.record import read

UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Step:
    """A step that ended, or (outcome "unfinished") was under way when the run was killed. `path`: outermost first."""

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

    @property
    def name(self) -> str:
        """Return the step's name with its parents'."""
        return " / ".join(self.path)


@dataclass(frozen=True)
class Check:
    """One check's outcome: passed, failed or not-run. `detail` is the failure's text or why it did not run."""

    name: str
    suite: str
    outcome: str
    seconds: float
    blame: str = ""
    detail: str = ""


@dataclass(frozen=True)
class CellResult:
    """One cell of a run. `outcome`: passed, failed, interrupted or unfinished."""

    id: str
    directory: str
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]
    failures: tuple[Step, ...]

    @property
    def failed_checks(self) -> tuple[Check, ...]:
        """Return the checks that failed."""
        return tuple(c for c in self.checks if c.outcome == "failed")

    @property
    def seconds(self) -> float:
        """Return how long the top-level steps and the checks took together."""
        return sum(s.seconds for s in self.steps if len(s.path) == 1) + sum(c.seconds for c in self.checks)

    @property
    def outcome(self) -> str:
        """Return the worst outcome of all steps and checks; a retried attempt that failed does not count."""
        last = max((s.attempt for s in self.steps), default=1)
        outcomes = {s.outcome for s in self.steps if s.attempt == last} | {c.outcome for c in self.checks}
        for word in ("failed", "interrupted", UNFINISHED):
            if word in outcomes:
                return word
        return "passed" if "passed" in {c.outcome for c in self.checks} else UNFINISHED


@dataclass(frozen=True)
class RunResult:
    """A run: its id, how it was started, its cells in plan order, its exit code (None when it was killed)."""

    run: str
    directory: Path
    started: str
    command: str
    cleanup: str
    cells: tuple[CellResult, ...]
    exit_code: int | None


def alike(checks: tuple[Check, ...]) -> list[tuple[Check, tuple[str, ...]]]:
    """Group failed checks that say the same but for their name: the first of each, and the names of the others."""
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for check in checks:
        body = check.detail.strip().partition("\n")[2] or check.detail
        groups.setdefault((check.suite, check.blame, body), []).append(check)
    return [(first, tuple(c.name for c in others)) for first, *others in groups.values()]


def load(run_dir: Path) -> RunResult:
    """Load a run's results; an empty run when nothing was written yet."""
    events = read(run_dir)
    start = next((e for e in events if e["event"] == "run-start"), {})
    end = next((e for e in reversed(events) if e["event"] == "run-end"), None)
    ids = list(dict.fromkeys([*start.get("cells", []), *(e["cell"] for e in events if "cell" in e)]))
    return RunResult(
        run=start.get("run", run_dir.name),
        directory=run_dir,
        started=start.get("time", ""),
        command=start.get("command", ""),
        cleanup=start.get("cleanup", ""),
        cells=tuple(_cell(i, run_dir, [e for e in events if e.get("cell") == i]) for i in ids),
        exit_code=None if end is None else int(end["exit_code"]),
    )


def _cell(cell: str, run_dir: Path, events: list[dict[str, Any]]) -> CellResult:
    steps = _steps(events)
    checks = tuple(
        Check(e["name"], e["suite"], e["outcome"], float(e["seconds"]), e.get("blame", ""), e.get("detail", ""))
        for e in events
        if e["event"] == "check"
    )
    failed = [s for s in steps if s.outcome == "failed"]
    # an inner step's failure is its parents' too: show the innermost, once
    inner = tuple(
        s
        for s in failed
        if not any(o is not s and o.attempt == s.attempt and o.path[: len(s.path)] == s.path for o in failed)
    )
    return CellResult(cell, str(run_dir / cell), steps, checks, inner)


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
