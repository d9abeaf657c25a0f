"""Restart of an instance's programs: during a run, what ends is started again, a few times.

Looks at the processes of this host in a thread of its own. Does not cover programs inside machines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from harness.errors import VmatrixError
from harness.infra.host import folder, processes
from harness.infra.host.instance import Occupant
from harness.until import Deadline, TimedOut

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # between looks at processes of this host, which cost nothing: a death is to be known within 10 s
KEEPER_LOCK_SECONDS = 1.0  # another command on the instance starts it, or takes it down: the next look sees which
MOST_STARTS = 3  # in a run: what ends more often has a reason that a start does not remove


class Keeper:
    """Looks after the programs of one instance for as long as its body runs."""

    def __init__(self, occupant: Occupant, tell: Callable[[str], None], most: int = MOST_STARTS) -> None:
        """Have `tell` told each program that ended, and what came of it."""
        self._occupant = occupant
        self._parts = processes.InstanceParts(occupant.layout)
        self._tell = tell
        self._left = most
        self._most = most
        self._given_up: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def __enter__(self) -> Keeper:
        self._look()  # what ended before is not to be waited for
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            self.look()
        except Exception:  # the next look may work; nothing here may end a run
            log.exception("the programs of instance %s could not be looked at", self._occupant.layout.name)

    def look(self) -> None:
        """Start what ended, unless another command on the instance is under way."""
        if not self._news():
            return
        layout = self._occupant.layout
        try:
            with folder.hold(layout.lock, seconds=KEEPER_LOCK_SECONDS, what="another command on the instance to end"):
                if dead := self._news():
                    self._revive(dead)
        except TimedOut:
            return

    def _news(self) -> list[str]:
        return [name for name in self._parts.dead() if name not in self._given_up]

    def _revive(self, dead: list[str]) -> None:
        """Start programs again; give them up when that was done too often, or they do not come up."""
        layout, named = self._occupant.layout, ", ".join(dead)
        last_words = processes.last_words(layout, dead)
        if not self._left:
            self._abandon(
                dead, f"programs of the instance were started again {self._most} times in this run", last_words
            )
            return
        self._left -= 1
        host, index = self._occupant.host, self._occupant.host.index()
        programs = [replace(p, after=_among(p.after, dead)) for p in self._occupant.programs(index) if p.name in dead]
        try:
            processes.bring_up(layout, programs, deadline=Deadline.after(host.config.up_seconds))
        except VmatrixError as error:
            self._abandon(dead, error.summary, f"{last_words}\n{error.detail}")
            return
        self._tell(f"{named} of instance {layout.name} ended and was started again\n{last_words}")

    def _abandon(self, dead: list[str], why: str, last_words: str) -> None:
        self._given_up |= dict.fromkeys(dead, why)
        processes.give_up(self._occupant.layout, self._given_up)
        self._tell(f"{', '.join(dead)} of instance {self._occupant.layout.name} ended: {why}\n{last_words}")


def _among(names: tuple[str, ...], dead: list[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in dead)
