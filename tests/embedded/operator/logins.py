"""Logins to machines that are played: a test says what they find, and when."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from harness.kube.client import Json
from harness.machines.programs import ProbedFacts
from harness.operator.controllers.ssh import Outcome
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS


@dataclass
class PlayedLogins:
    """What logins find.

    Attributes: answers (by name; else a bare machine with an id of its own), asked (names, one for each login).
    """

    answers: dict[str, Outcome] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    _held: dict[str, threading.Event] = field(default_factory=dict)
    _found: dict[str, Outcome] = field(default_factory=dict)

    def __call__(self, machine: Json) -> Outcome:
        name = machine["metadata"]["name"]
        self.asked.append(name)
        held = self._held.get(name)
        if held is not None:
            held.wait(WAIT_SECONDS)
            del self._held[name]
            return self._found.pop(name)
        return self.answers.get(name) or bare(name)

    def hold(self, name: str) -> None:
        """Let the next login to a machine wait until it is released."""
        self._held[name] = threading.Event()

    def waiting(self, name: str) -> None:
        """Return once a login that is held has begun."""
        until(
            lambda: name in self.asked or NotYet(f"asked: {self.asked}"),
            deadline=Deadline.after(WAIT_SECONDS),
            what=f"a login to {name}",
            interval=INTERVAL,
        )

    def release(self, name: str, found: Outcome) -> None:
        """Let a login that is held end."""
        self._found[name] = found
        self._held[name].set()


def bare(machine_id: str, *traces: str) -> ProbedFacts:
    """Return what is found on a machine."""
    return ProbedFacts("Debian GNU/Linux 13 (trixie)", 2, 2048, machine_id, traces)
