"""Steps of a cell as they happen: each is timed, written to the run's results, and told to whoever shows progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.errors import Blame, VmatrixError
from harness.events import Recorder

Outcome = Literal["passed", "failed", "interrupted"]


@dataclass(frozen=True)
class StepEvent:
    """A step that began (`outcome` None) or ended. `path` is its name and its parents', outermost first."""

    cell: str
    path: tuple[str, ...]
    outcome: Outcome | None
    seconds: float
    summary: str = ""


Listener = Callable[[StepEvent], None]


@dataclass
class OpenStep:
    """A step that is under way; `note` adds fields to its closing event."""

    fields: dict[str, Any] = field(default_factory=dict)

    def note(self, **fields: Any) -> None:
        """Add fields to the event that closes the step."""
        self.fields.update(fields)


@dataclass
class Steps:
    """Opens steps of one cell; a step inside another is its child. error: the one that left a step last."""

    recorder: Recorder
    cell: str
    attempt: int
    listeners: list[Listener] = field(default_factory=list)
    error: BaseException | None = None
    _open: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[OpenStep]:
        """Run the body as a step; an error that leaves it closes it as failed, with its blame."""
        path = (*self._open, name)
        self._open.append(name)
        opened = OpenStep()
        began = time.monotonic()
        self._tell(StepEvent(self.cell, path, None, 0.0))
        self.recorder.write("step-start", cell=self.cell, attempt=self.attempt, step=list(path))
        try:
            yield opened
        except Exception as error:
            self.error = error
            self._close(path, opened, began, "failed", describe(error))
            raise
        except BaseException:
            self._close(path, opened, began, "interrupted", {})
            raise
        else:
            self._close(path, opened, began, "passed", {})
        finally:
            self._open.pop()

    def _close(
        self, path: tuple[str, ...], opened: OpenStep, began: float, outcome: Outcome, error: dict[str, Any]
    ) -> None:
        seconds = round(time.monotonic() - began, 3)
        self.recorder.write(
            "step-end",
            cell=self.cell,
            attempt=self.attempt,
            step=list(path),
            outcome=outcome,
            seconds=seconds,
            **error,
            **opened.fields,
        )
        self._tell(StepEvent(self.cell, path, outcome, seconds, str(error.get("summary", ""))))

    def _tell(self, event: StepEvent) -> None:
        for listener in self.listeners:
            listener(event)


def describe(error: BaseException) -> dict[str, Any]:
    """Return what a report says about an error: blame, summary, hint, paths, detail; groups are flattened."""
    causes = flatten(error)
    if isinstance(causes, VmatrixError):
        return {
            "blame": causes.blame.value,
            "exit_code": causes.exit_code,
            "summary": causes.summary,
            "hint": causes.hint,
            "paths": [str(p) for p in causes.paths],
            "detail": causes.detail,
        }
    return {"blame": Blame.HARNESS.value, "exit_code": 70, "summary": f"{type(causes).__name__}: {causes}"}


def flatten(error: BaseException) -> BaseException:
    """Return a group's first error, the others' summaries added to its detail; any other error as it is."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    first, *others = [flatten(e) for e in error.exceptions]
    if isinstance(first, VmatrixError) and others:
        also = "\n".join(f"also: {other}" for other in others)
        first.detail = f"{first.detail}\n{also}".strip()
    return first
