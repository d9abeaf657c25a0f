"""Says now and then how many of many are gone, and how many are to go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SECONDS = 10.0  # between two lines: often enough to see that it goes on


class Countdown:
    """Counts what goes; told from any thread."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._lock = threading.Lock()
        self._gone = 0
        self._said_at = clock()

    def told(self, left: int) -> None:
        """Count one that is gone; say where this stands if nothing was said for a while, and it is not the last."""
        with self._lock:
            self._gone += 1
            if left and self._clock() - self._said_at >= SECONDS:
                self._said_at = self._clock()
                self._say(f"{self._gone} cells are gone, {left} to go")
