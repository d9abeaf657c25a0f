"""When a Machine that nobody uses is looked at again: at growing intervals, and few in a minute however many there are.

Intervals are not spread by chance: the same machines are looked at in the same order at every start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.kube.informer import Key


@dataclass(frozen=True)
class Pace:
    """Seconds from the first look to the next, at most between two, and at least for each machine that there is."""

    first: float
    longest: float
    each: float


TROUBLE = Pace(5.0, 300.0, 5.0)  # somebody repairs the machine, and looks
COMING = Pace(1.0, 30.0, 0.0)  # a machine that was just made boots, and its cluster waits for it
FINE = Pace(30.0, 900.0, 60.0)  # a look costs two requests: an idle manager makes at most two a minute for all machines


@dataclass(frozen=True)
class Looks:
    """The looks at a Machine so far: at which generation, how many with the same end, and when the last one was."""

    generation: int
    fine: bool
    count: int
    at: float


class ProbeTimes:
    """When each Machine was looked at. Whoever asks about a Machine is the only one who looks at it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: dict[Key, Looks] = {}

    def note(self, key: Key, generation: int, *, fine: bool) -> None:
        """Say that a Machine was just looked at, and whether all was well."""
        last = self._looks.get(key)
        again = last is not None and (last.generation, last.fine) == (generation, fine)
        self._looks[key] = Looks(generation, fine, last.count + 1 if last is not None and again else 1, self._clock())

    def left(self, key: Key, generation: int, *, fine: bool, coming: bool = False) -> float:
        """Return the seconds until the next look at a Machine whose present spec was looked at; 0: now.

        After a restart of the manager, what its object says counts as the first look.

        coming: it was made, and is looked at until all is well.
        """
        if key not in self._looks or self._looks[key].generation != generation:
            self.note(key, generation, fine=fine)
        known = self._looks[key]
        pace = FINE if known.fine else COMING if coming else TROUBLE
        grown = min(pace.first * 2.0 ** min(known.count - 1, 30), pace.longest)
        return max(0.0, known.at + max(grown, len(self._looks) * pace.each) - self._clock())

    def forget(self, key: Key) -> None:
        """Drop a Machine that is gone or in use."""
        self._looks.pop(key, None)
