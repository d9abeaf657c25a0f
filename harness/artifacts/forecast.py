"""How long all that is being made will still take, said again and again while it is made.

What is to be done is counted in processor seconds, as the catalogue has them. How many of ours one of those is shows
from what is done already, before that from what this cache's builds took and from a piece of work that takes a moment.
How many seconds by the clock one of ours takes shows from how fast it goes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from harness.artifacts import meter
from harness.artifacts.recipe import RECORD, ArtifactPhase, Event, Progress, Ref, Source, Whole

LEAST_SECONDS = 10.0  # what is shorter says little of a host
TRUST_SECONDS = 60.0  # of processor time done until what was thought before counts half
SETTLING_SECONDS = 5.0  # by the clock until how fast it goes counts half
BUSY = 0.9  # of all processors, as long as nothing was seen
COMPILERS = 2  # of ours for each processor, in two lanes: others get what is left
ENDING = 0.03  # of what was expected: never less is left of what has not ended
OVERDUE = 0.15  # of what was used: so much is left of what has used more than was expected


@dataclass
class Piece:
    """One piece of work.

    label: what progress calls it.  work: the processor seconds that are expected, on the host of the catalogue's
    figures.  waits: seconds that a download is expected to take, which needs next to no processor.
    """

    label: Ref
    work: float = 0.0
    waits: float = 0.0
    elapsed: float = 0.0
    used: float = 0.0
    begun: bool = False
    over: bool = False


@dataclass
class Forecast:
    """All pieces of work that are done now.

    factor: our processor seconds for one of the catalogue's, as far as is known.  load: how many programs of others
    want a processor when it begins.
    """

    parts: Sequence[Piece]
    factor: float
    processors: int
    load: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._by_label = {part.label: part for part in self.parts}
        self._began = self.clock()

    def telling(self, progress: Progress) -> Progress:
        """Return what passes events on, each with where everything stands."""

        def tell(event: Event) -> None:
            with self._lock:
                self._note(event)
                whole = self._whole()
            progress(replace(event, whole=whole))

        return tell

    def over(self, label: Ref) -> None:
        """Note that a piece of work is done, by us or by another process."""
        with self._lock:
            self._by_label[label].over = True

    def _note(self, event: Event) -> None:
        part = self._by_label.get(event.ref)
        if part is None or event.phase is ArtifactPhase.CACHED:
            return
        passed = event.elapsed - part.elapsed
        part.begun, part.elapsed = True, event.elapsed
        if event.used is not None:
            part.used = max(part.used, event.used)
        elif part.work:  # nobody knows: its share of the processors
            part.used += passed * self.processors * BUSY / max(1, len(self._under_way()))
        part.over = part.over or event.phase is ArtifactPhase.DONE

    def _whole(self) -> Whole:
        elapsed = self.clock() - self._began
        running = self._under_way()
        names = tuple(part.label for part in running)
        return Whole(elapsed, elapsed + self._left(elapsed), names, tuple(self._by_label))

    def _under_way(self) -> list[Piece]:
        return [part for part in self.parts if part.begun and not part.over]

    def _left(self, elapsed: float) -> float:
        factor = self._factor()
        rest = waits = 0.0
        for part in self.parts:
            if not part.over:
                wanted = part.work * factor
                more = OVERDUE * part.used if part.used > wanted else 0.0
                rest += max(wanted - part.used, ENDING * wanted, more if wanted else 0.0)
                waits += max(part.waits - part.elapsed, ENDING * part.waits)
        return max(rest / self._pace(elapsed), waits)

    def _factor(self) -> float:
        """Return how many processor seconds one of the catalogue's takes, by what is done."""
        done = [part for part in self.parts if part.over and part.used]  # another process's have none
        work, used = sum(part.work for part in done), sum(part.used for part in done)
        return (self.factor * TRUST_SECONDS + used) / (TRUST_SECONDS + work)

    def _pace(self, elapsed: float) -> float:
        """Return how many processor seconds are done in a second, by what was seen."""
        used, ours = sum(part.used for part in self.parts), COMPILERS * self.processors
        thought = BUSY * self.processors * min(1.0, ours / (ours + self.load))
        return (thought * SETTLING_SECONDS + used) / (SETTLING_SECONDS + elapsed)


def host_factor(cache: Path) -> float:
    """Return our processor seconds for one of the catalogue's: what a cache's builds took and a measurement say."""
    found = {label: used / expected for label, expected, used in _measured(cache) if expected >= LEAST_SECONDS}
    return median([*found.values(), meter.speed()])


def _measured(cache: Path) -> Iterator[tuple[str, float, float]]:
    """Yield what was built, under the name of what was built together, and what was expected of it and what it took."""
    for file in cache.glob(f"*/*/{Source.GOMOD}-*/{RECORD}"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            facts = json.loads(file.read_text(encoding="utf-8"))["processor"]
            yield str(facts["of"]), float(facts["expected"]), float(facts["used"])
