"""Progress of long builds and downloads: a live line for each on a terminal, otherwise a plain line now and then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from harness.artifacts.recipe import ArtifactPhase, Event, Ref
from harness.artifacts.recipe import Progress as Report

PLAIN_EVERY_SECONDS = 30.0  # between two lines about one artifact: display
WORTH_SAYING_SECONDS = 5.0  # what takes less is not announced: display


@contextmanager
def showing(console: Console) -> Iterator[Report]:
    """Yield a callback that shows what the store is doing; nothing appears when everything is cached."""
    if not console.is_terminal:
        yield Lines(console).report
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[times]}"))
    with Progress(*columns, console=console) as display:
        yield Bars(display).report


def clock(seconds: float) -> str:
    """Return seconds as minutes and seconds (75 is 1:15)."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def times(event: Event) -> str:
    """Return elapsed and expected time in words."""
    return f"{clock(event.elapsed)} of about {clock(event.expected)}"


@dataclass(frozen=True)
class Lines:
    """Plain lines: at the start of what will take long, every half minute of it, and at its end."""

    console: Console
    said: dict[Ref, float] = field(default_factory=dict)

    def report(self, event: Event) -> None:
        """Say what is worth saying."""
        match event.phase:
            case ArtifactPhase.WAITING:
                self._say(event, str(event.phase))
            case ArtifactPhase.RUNNING if event.ref not in self.said and event.expected >= WORTH_SAYING_SECONDS:
                self._say(event, f"{event.source}, about {clock(event.expected)}")
            case ArtifactPhase.RUNNING if (
                event.elapsed - self.said.get(event.ref, event.elapsed) >= PLAIN_EVERY_SECONDS
            ):
                self._say(event, times(event))
            case ArtifactPhase.DONE:
                self._say(event, f"done in {event.elapsed:.1f} s")

    def _say(self, event: Event, text: str) -> None:
        self.said[event.ref] = event.elapsed
        self.console.print(f"{event.ref.name} {event.ref.version}: {text}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Bars:
    """A bar for each artifact under way."""

    display: Progress
    tasks: dict[Ref, TaskID] = field(default_factory=dict)

    def report(self, event: Event) -> None:
        """Move the artifact's bar; a finished one becomes a line above."""
        if event.phase is ArtifactPhase.CACHED:
            return
        if event.ref not in self.tasks:
            name = f"{event.ref.name} {event.ref.version} ({event.source})"
            self.tasks[event.ref] = self.display.add_task(name, total=max(event.expected, 1.0), times="")
        task = self.tasks[event.ref]
        if event.phase is ArtifactPhase.DONE:
            self.display.remove_task(task)
            self.display.console.print(f"{event.ref.name} {event.ref.version}: done in {event.elapsed:.1f} s")
            return
        shown = str(event.phase) if event.phase is ArtifactPhase.WAITING else times(event)
        self.display.update(task, completed=event.elapsed, times=shown)
