"""Progress of long builds and downloads: a live line on a terminal, otherwise a plain line now and then.

What is made together has one line and one estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from harness.artifacts.recipe import ArtifactPhase, Event, Ref, Whole, clock
from harness.artifacts.recipe import Progress as Report

PLAIN_EVERY_SECONDS = 30.0  # between two lines about the same work: display
WORTH_SAYING_SECONDS = 5.0  # what takes less is not announced: display
TOGETHER = Ref("", "")  # what all that is made together is called here


@contextmanager
def showing(console: Console) -> Iterator[Report]:
    """Yield a callback that shows what the store is doing; nothing appears when everything is cached."""
    if not console.is_terminal:
        yield Lines(console).report
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[times]}"))
    with Progress(*columns, console=console) as display:
        yield Bars(display).report


def whole_of(event: Event) -> Whole:
    """Return where all stands that is made together with an event's work: that alone where nothing else is known."""
    return event.whole or Whole(event.elapsed, event.expected, (event.ref,), (event.ref,))


@dataclass(frozen=True)
class Lines:
    """Plain lines: at the start of what will take long, every half minute of it, and at the end of each artifact."""

    console: Console
    said: dict[Ref, float] = field(default_factory=dict)

    def report(self, event: Event) -> None:
        """Say what is worth saying."""
        whole = whole_of(event)
        known = TOGETHER if len(whole.parts) > 1 else event.ref
        match event.phase:
            case ArtifactPhase.WAITING:
                self._say(event.ref, str(event.phase))
            case ArtifactPhase.RUNNING if known not in self.said:
                self._begin(event, whole, known)
            case ArtifactPhase.RUNNING if whole.elapsed - self.said[known] >= PLAIN_EVERY_SECONDS:
                self._goes_on(event, whole, known)
            case ArtifactPhase.DONE:
                self._say(event.ref, f"done in {event.elapsed:.1f} s")

    def _begin(self, event: Event, whole: Whole, known: Ref) -> None:
        if whole.expected < WORTH_SAYING_SECONDS:
            return
        self.said[known] = whole.elapsed
        if known is TOGETHER:
            self._print(whole.plan)
        else:
            self._say(event.ref, f"{event.source}, about {clock(whole.expected)}")

    def _goes_on(self, event: Event, whole: Whole, known: Ref) -> None:
        self.said[known] = whole.elapsed
        if known is TOGETHER:
            self._print(f"{whole.times}: {whole.names}")
        else:
            self._say(event.ref, whole.times)

    def _say(self, ref: Ref, text: str) -> None:
        self._print(f"{ref.name} {ref.version}: {text}")

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Bars:
    """A bar for what is made together."""

    display: Progress
    tasks: dict[Ref, TaskID] = field(default_factory=dict)

    def report(self, event: Event) -> None:
        """Move the bar; a finished artifact becomes a line above."""
        if event.phase is ArtifactPhase.CACHED:
            return
        whole = whole_of(event)
        known = TOGETHER if len(whole.parts) > 1 else event.ref
        if known not in self.tasks:
            self.tasks[known] = self.display.add_task("", total=1.0, times="")
        task = self.tasks[known]
        if event.phase is ArtifactPhase.DONE:
            self.display.console.print(f"{event.ref.name} {event.ref.version}: done in {event.elapsed:.1f} s")
            if known is not TOGETHER:
                self.display.remove_task(task)
            return
        waits = event.phase is ArtifactPhase.WAITING
        self.display.update(
            task,
            description=whole.names or f"{event.ref.name} {event.ref.version}",
            total=max(whole.expected, 1.0),
            completed=whole.elapsed,
            times=str(event.phase) if waits else whole.times,
        )
