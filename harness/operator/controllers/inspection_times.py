"""When a machine of a cluster is looked into again: often enough to tell of a change within a minute, and spread."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable

from harness.kube.informer import Key

LOOK_SECONDS = 50.0  # a change is told within a minute: the pause, and some seconds for the login
EACH_SECONDS = 0.5  # pacing: two logins a second at most, however many machines there are; each is a request to the API
AGAIN_SECONDS = 10.0  # after a first login that failed: the second one decides


class InspectionTimes:
    """When each machine is due. Whoever asks about a machine is the only one who looks at it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[Key, tuple[str, float]] = {}
        self._failures: dict[Key, int] = {}

    def left(self, key: Key, operation: str, *, known: bool) -> float:
        """Return the seconds until a machine is due; 0: now.

        Args:
            operation: after which one a look is due at once.  known: an earlier manager has looked after that one.
        """
        now = self._clock()
        if key not in self._due and known:  # after a restart of the manager: not all at once, but in a fixed order
            share = zlib.crc32("/".join(key).encode()) % 1000 / 1000
            self._due[key] = operation, now + share * self._pause()
        looked, due = self._due.get(key, (operation, now))
        self._due[key] = operation, due if looked == operation else now
        return max(0.0, self._due[key][1] - now)

    def note(self, key: Key, operation: str, *, answered: bool) -> int:
        """Say that a machine was just logged in to; return how many logins in a row have failed now."""
        failed = 0 if answered else self._failures.get(key, 0) + 1
        self._failures[key] = failed
        self._due[key] = operation, self._clock() + (AGAIN_SECONDS if failed == 1 else self._pause())
        return failed

    def forget(self, key: Key) -> None:
        """Drop a machine that is part of no cluster."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def _pause(self) -> float:
        return max(LOOK_SECONDS, len(self._due) * EACH_SECONDS)
