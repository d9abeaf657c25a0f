"""Shared types of artifacts: Ref, Source, Recipe, time limits and progress events.

Each source is a module with a frozen recipe class of its own; the store only sees this.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from harness.spec.models import Timeouts

RECORD = "artifact.json"  # beside an artifact's files: how it came about
MOST_NAMES = 6  # of what is made together, in one line
TICK_SECONDS = 1.0  # between two reports of progress


@dataclass(frozen=True)
class ArtifactLimits:
    """Seconds for making artifacts and disk images, as in timeouts.yml; its defaults where none is read."""

    build: float = 3600.0
    modules: float = 900.0
    toolchain: float = 600.0
    push: float = 300.0
    packages: float = 900.0
    install: float = 1800.0

    @staticmethod
    def of(timeouts: Timeouts) -> ArtifactLimits:
        """Return the limits that a site's timeouts.yml sets."""
        return ArtifactLimits(
            build=timeouts.artifact_build,
            modules=timeouts.artifact_modules,
            toolchain=timeouts.artifact_toolchain,
            push=timeouts.artifact_push,
            packages=timeouts.artifact_packages,
            install=timeouts.image_install,
        )


LIMITS = ArtifactLimits()


@dataclass(frozen=True, order=True)
class Ref:
    """One artifact of one version; an image is `image/<repository>`, its version the tag."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class Source(StrEnum):
    """Where artifacts come from. AUTO: release sites when they can be reached, otherwise built from source."""

    AUTO = "auto"
    RELEASE = "release"
    GOMOD = "gomod"


class ArtifactPhase(StrEnum):
    """What is happening to an artifact."""

    CACHED = "cached"
    WAITING = "waiting for another process"
    RUNNING = "under way"
    DONE = "done"


@dataclass(frozen=True)
class Whole:
    """Where all work stands that is done together: seconds so far, and in all as far as is known by now.

    under_way: what is being made at this moment.  parts: all pieces of work.
    """

    elapsed: float
    expected: float
    under_way: tuple[Ref, ...]
    parts: tuple[Ref, ...]

    @property
    def times(self) -> str:
        """Return elapsed and expected time in words."""
        return f"{clock(self.elapsed)} of about {clock(self.expected)}"

    @property
    def names(self) -> str:
        """Return what is under way, in words."""
        return ", ".join(f"{ref.name} {ref.version}" for ref in self.under_way)

    @property
    def plan(self) -> str:
        """Return what is made and how long it will take, in words; the longest comes first."""
        more = len(self.parts) - MOST_NAMES
        names = ", ".join(f"{ref.name} {ref.version}" for ref in self.parts[:MOST_NAMES])
        return f"to make, about {clock(self.expected)} in all: {names}{f' and {more} more' if more > 0 else ''}"


def clock(seconds: float) -> str:
    """Return seconds as minutes and seconds (75 is 1:15)."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@dataclass(frozen=True)
class Event:
    """A moment in obtaining an artifact: `elapsed` and `expected` are seconds, `source` says how.

    used: processor seconds so far, None where the kernel does not tell.  whole: where all stands that is made now.
    """

    ref: Ref
    phase: ArtifactPhase
    source: str
    elapsed: float
    expected: float
    used: float | None = None
    whole: Whole | None = None


Progress = Callable[[Event], None]


def silent(event: Event) -> None:
    """Take no notice of progress."""


class Recipe(Protocol):
    """One way to make one artifact."""

    @property
    def source(self) -> str:
        """Return `gomod`, `release` or `image`."""

    @property
    def seconds(self) -> float:
        """Return how long making it is expected to take: processor seconds, or of a download seconds by the clock."""

    def ingredients(self) -> Mapping[str, Any]:
        """Return everything that the result depends on, as JSON."""

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Make the artifact's files in an empty folder; return facts to keep beside them (the compiler's version).

        Raises:
            VmatrixError: with the last lines of what went wrong, and `log` among its paths.
        """


def inputs_of(recipe: Recipe) -> tuple[Ref, ...]:
    """Return the artifacts that one is made of, which have to be there first."""
    return tuple(getattr(recipe, "inputs", ()))


def key(recipe: Recipe) -> str:
    """Return the cache key of a recipe: its source and a hash of all that it depends on."""
    text = json.dumps(recipe.ingredients(), sort_keys=True)
    return f"{recipe.source}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@contextmanager
def ticking(
    progress: Progress, ref: Ref, source: str, expected: float, used: Callable[[], float | None] = lambda: None
) -> Iterator[None]:
    """Report RUNNING at once and every second while the body runs, and DONE when it has ended well.

    Args:
        used: asked each time for the processor seconds so far.
    """
    began = time.monotonic()
    ended = threading.Event()

    def report(phase: ArtifactPhase) -> None:
        progress(Event(ref, phase, source, time.monotonic() - began, expected, used()))

    def tick() -> None:
        while not ended.wait(TICK_SECONDS):
            report(ArtifactPhase.RUNNING)

    report(ArtifactPhase.RUNNING)
    thread = threading.Thread(target=tick, name=f"progress of {ref}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    report(ArtifactPhase.DONE)
