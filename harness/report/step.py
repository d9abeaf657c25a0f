"""Steps and checks of a cell as its results tell them, and the words for how they end."""

from __future__ import annotations

from dataclasses import dataclass

from harness.validate.performance.figures import Figure

PASSED = "passed"
FAILED = "failed"
INTERRUPTED = "interrupted"
UNFINISHED = "unfinished"  # begun, and its end was never written down
UNCHECKED = "unchecked"  # came and went, and no check of it passed or failed
NOT_STARTED = "not started"
QUARANTINED = "quarantined"
OUTCOMES = (FAILED, QUARANTINED, INTERRUPTED, UNFINISHED, UNCHECKED, NOT_STARTED, PASSED)
NOT_RUN = "not-run"  # of a check
NOT_JUDGED = "not judged: "  # begins the reason of a check that had nothing to judge in a cluster
LEFT_OUT = "left out: "  # begins the reason of a check that the product leaves out
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

    @property
    def title(self) -> str:
        """Return the step's own name, as people read it."""
        return "waiting for room" if self.path == (ADMISSION,) else self.path[-1]

    @property
    def said(self) -> str:
        """Return the outcome, and whether it is excused."""
        return f"{self.outcome}, quarantined" if self.quarantine else self.outcome

    @property
    def top(self) -> bool:
        """Tell whether the step is part of no other."""
        return len(self.path) == 1


@dataclass(frozen=True)
class Check:
    """One check's outcome: passed, failed or not-run.

    detail: the failure's text, or why it did not run.  stage: the phase after which it ran.
    measured: what it measured and every report shows, in words.
    parts: what of it was not judged, and why, although the check passed or failed.
    figures: what it measured, in numbers.
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
    measured: str = ""
    parts: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def title(self) -> str:
        """Return suite and name, as quarantine entries name checks."""
        return f"{self.suite}: {self.name}"

    @property
    def not_judged(self) -> bool:
        """Tell whether it found nothing to judge in the cluster."""
        return self.outcome == NOT_RUN and self.detail.startswith(NOT_JUDGED)

    @property
    def left_out(self) -> bool:
        """Tell whether the product leaves it out."""
        return self.outcome == NOT_RUN and self.detail.startswith(LEFT_OUT)


@dataclass(frozen=True)
class WorkerAssignment:
    """When a cell was given to a worker: seconds from the start of the run (or rerun), and what was expected of it."""

    worker: str
    after: float
    expected: float
    source: str
