"""One cell of a run as its results tell it: attempts, steps and checks, counted by suite, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.check_result import CheckResult, FindingKind, signature_of_text
from harness.model import Outcome
from harness.rundir import AttemptDir

OUTCOMES = (
    Outcome.FAILED,
    Outcome.QUARANTINED,
    Outcome.INTERRUPTED,
    Outcome.UNFINISHED,
    Outcome.UNCHECKED,
    Outcome.NOT_STARTED,
    Outcome.PASSED,
)  # of cells, the worst first
ADMISSION = "admission"  # the step in which a cell waits for room
TEARDOWN = "teardown"


@dataclass(frozen=True)
class Step:
    """A step that ended, or (outcome "unfinished") was under way when the run was killed.

    path: its name and its parents', outermost first.
    quarantine: the issue of the entry that keeps a failure from counting.
    """

    path: tuple[str, ...]
    attempt: int
    outcome: Outcome
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

    @property
    def title(self) -> str:
        """Return the step's own name, as people read it."""
        return "waiting for room" if self.path == (ADMISSION,) else self.path[-1]

    @property
    def said(self) -> str:
        """Return the outcome, and whether it is excused."""
        return f"{self.outcome}, quarantined" if self.quarantine else self.outcome

    @property
    def cause(self) -> tuple[str, ...]:
        """Return what failures of one cause share within a run."""
        return self.blame, self.quarantine, signature_of_text(self.summary or self.name)

    @property
    def top(self) -> bool:
        """Tell whether the step is part of no other."""
        return len(self.path) == 1


@dataclass(frozen=True)
class WorkerAssignment:
    """When a cell was given to a worker: seconds from the start of the run (or rerun), and what was expected of it."""

    worker: str
    after: float
    expected: float
    source: str


@dataclass(frozen=True)
class CellResult:
    """One cell of a run, with all its attempts; the last one counts.

    failures: the failed steps of all attempts, of a step inside another only the inner one.
    admitted: how the last attempt came to a worker; None in a run without workers.
    cut: the attempts that a signal ended; it may have come in the middle of a check, which then left no trace.
    usage: of the last attempt that was measured, what each machine took (harness/history/record.py, MachineRecord).
    around: of the last attempt that says so, where it ran: its nodes, and how busy its host was.
    """

    id: str
    directory: str
    steps: tuple[Step, ...]
    checks: tuple[CheckResult, ...]
    failures: tuple[Step, ...]
    admitted: WorkerAssignment | None = None
    cut: frozenset[int] = frozenset()
    kept: bool = False
    usage: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    around: Mapping[str, str] = field(default_factory=dict)

    @property
    def attempts(self) -> tuple[int, ...]:
        """Return the numbers of the attempts that began, in order."""
        return tuple(sorted({s.attempt for s in self.steps} | {c.attempt for c in self.checks}))

    @property
    def last_attempt(self) -> int:
        """Return the number of the attempt that counts."""
        return max(self.attempts, default=1)

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages that checks belong to, in the order in which they came."""
        return tuple(dict.fromkeys(c.stage for c in self.checks))

    @property
    def last_checks(self) -> tuple[CheckResult, ...]:
        """Return the checks of the attempt that counts."""
        return self.checks_of(self.last_attempt)

    @property
    def last_failures(self) -> tuple[Step, ...]:
        """Return the failed steps of the attempt that counts."""
        return self.failures_of(self.last_attempt)

    @property
    def failed_checks(self) -> tuple[CheckResult, ...]:
        """Return the checks that failed in the attempt that counts."""
        return tuple(c for c in self.last_checks if c.outcome == Outcome.FAILED)

    @property
    def quarantined(self) -> bool:
        """Tell whether something failed that does not count."""
        return any(failure.quarantine for failure in self.failed_of(self.last_attempt))

    @property
    def waited(self) -> float:
        """Return how many seconds the last attempt waited for room; in a run with workers, for one of them too."""
        steps = sum(s.seconds for s in self.steps_of(self.last_attempt) if s.path == (ADMISSION,))
        return steps + (self.admitted.after if self.admitted is not None else 0.0)

    @property
    def seconds(self) -> float:
        """Return how long the top-level steps and the checks of all attempts took together, without any wait."""
        return sum(map(self.seconds_of, self.attempts))

    @property
    def last_seconds(self) -> float:
        """Return how long the attempt that counts took, without any wait."""
        return self.seconds_of(self.last_attempt)

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the attempt that counts."""
        return self.outcome_of(self.last_attempt)

    @property
    def incomplete(self) -> bool:
        """Tell whether the attempt that counts never began or was cut off, before anything failed."""
        return self.outcome in (Outcome.INTERRUPTED, Outcome.UNFINISHED, Outcome.NOT_STARTED)

    @property
    def earlier(self) -> dict[int, Outcome]:
        """Return the outcomes of the attempts before, by their number."""
        return {number: self.outcome_of(number) for number in self.attempts[:-1]}

    @property
    def blames(self) -> dict[str, int]:
        """Return how many failures that count are whose."""
        blames = [f.blame or "unknown" for f in self.failed_of(self.last_attempt) if not f.quarantine]
        return {blame: blames.count(blame) for blame in sorted(set(blames))}

    def steps_of(self, attempt: int) -> tuple[Step, ...]:
        """Return an attempt's steps."""
        return tuple(s for s in self.steps if s.attempt == attempt)

    def checks_of(self, attempt: int) -> tuple[CheckResult, ...]:
        """Return an attempt's checks."""
        return tuple(c for c in self.checks if c.attempt == attempt)

    def failures_of(self, attempt: int) -> tuple[Step, ...]:
        """Return an attempt's failed steps."""
        return tuple(s for s in self.failures if s.attempt == attempt)

    def failed_of(self, attempt: int) -> tuple[Step | CheckResult, ...]:
        """Return an attempt's failed steps and checks."""
        return (*self.failures_of(attempt), *(c for c in self.checks_of(attempt) if c.outcome == Outcome.FAILED))

    def seconds_of(self, attempt: int) -> float:
        """Return how long an attempt's top-level steps and checks took, without the wait for room."""
        steps = sum(s.seconds for s in self.steps_of(attempt) if s.top and s.path != (ADMISSION,))
        return steps + sum(c.seconds for c in self.checks_of(attempt))

    def outcome_of(self, attempt: int) -> Outcome:
        """Return the worst outcome of an attempt's steps and checks; what is in quarantine is not a failure.

        An attempt has not passed before its teardown has ended, unless it was kept: a run may be killed between two
        steps.
        """
        steps, checks = self.steps_of(attempt), self.checks_of(attempt)
        everything: list[Step | CheckResult] = [*steps, *checks]
        if not everything:
            return Outcome.NOT_STARTED
        excused = any(e.outcome == Outcome.FAILED and e.quarantine for e in everything)
        outcomes = {e.outcome for e in everything if not (e.outcome == Outcome.FAILED and e.quarantine)}
        outcomes |= {Outcome.INTERRUPTED} if attempt in self.cut else set()
        for word in (Outcome.FAILED, Outcome.INTERRUPTED, Outcome.UNFINISHED):
            if word in outcomes:
                return word
        if excused:
            return Outcome.QUARANTINED
        if not self.kept and not any(s.path == (TEARDOWN,) for s in steps):
            return Outcome.UNFINISHED
        return Outcome.PASSED if any(c.outcome == Outcome.PASSED for c in checks) else Outcome.UNCHECKED

    def judged_nothing(self, attempt: int) -> bool:
        """Tell whether an attempt ended well and proves nothing: of its checks, all were left out or judged nothing."""
        mute = any(c.kind in (FindingKind.LEFT_OUT, FindingKind.NOT_JUDGED) for c in self.checks_of(attempt))
        return mute and self.outcome_of(attempt) == Outcome.UNCHECKED

    def logs(self, attempt: int) -> Path:
        """Return the directory of an attempt's logs."""
        return AttemptDir(Path(self.directory)).sibling(attempt).logs

    def label(self, check: CheckResult) -> str:
        """Return a check's suite and name, with its stage when the cell has several."""
        return f"{check.title} (after {check.stage})" if len(self.stages) > 1 and check.stage else check.title


@dataclass(frozen=True)
class Group:
    """The checks of one suite after one stage of one attempt."""

    title: str
    passed: int
    failed: int
    quarantined: int
    not_run: int
    not_judged: int
    left_out: int
    seconds: float

    @property
    def said(self) -> str:
        """Return the numbers that are not zero."""
        words = {
            "passed": self.passed,
            "failed": self.failed,
            "quarantined": self.quarantined,
            "not judged": self.not_judged,
            "left out": self.left_out,
            "not run": self.not_run,
        }
        return ", ".join(f"{number} {word}" for word, number in words.items() if number)


def groups_of(cell: CellResult, attempt: int) -> list[Group]:
    """Return an attempt's checks by stage (when the cell has several) and suite."""
    checks = cell.checks_of(attempt)
    keys = dict.fromkeys((c.stage, c.suite) for c in checks)
    ordered = sorted(keys, key=lambda key: cell.stages.index(key[0]))
    return [_group(cell, key, [c for c in checks if (c.stage, c.suite) == key]) for key in ordered]


def _group(cell: CellResult, key: tuple[str, str], checks: list[CheckResult]) -> Group:
    stage, suite = key
    failed = [c for c in checks if c.outcome == Outcome.FAILED]
    return Group(
        title=f"after {stage}: {suite}" if len(cell.stages) > 1 else suite,
        passed=sum(c.outcome == Outcome.PASSED for c in checks),
        failed=sum(not c.quarantine for c in failed),
        quarantined=sum(bool(c.quarantine) for c in failed),
        not_run=sum(c.kind is FindingKind.NOT_RUN for c in checks),
        not_judged=sum(c.kind is FindingKind.NOT_JUDGED for c in checks),
        left_out=sum(c.kind is FindingKind.LEFT_OUT for c in checks),
        seconds=sum(c.seconds for c in checks),
    )
