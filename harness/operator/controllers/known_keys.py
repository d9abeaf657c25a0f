"""Private keys of Machines, remembered for a while: machines of clusters are logged in to every minute.

What is no key is not remembered, nor is a key that a machine refused: the next login reads the Secret again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from harness.kube.client import Cluster
from harness.kube.resources import SECRET
from harness.operator.api.machine import DeclaredMachine
from harness.operator.controllers.probe import ProbeTrouble, TroubleReason
from harness.operator.controllers.probe_key import key_of_secret

KEY_SECONDS = 600.0  # a Secret that somebody deletes is missed after that; one in twelve looks reads it


class KnownKeys:
    """Reads keys, and remembers them for so many seconds; 0: not at all."""

    def __init__(self, cluster: Cluster, seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._clock = clock
        self._known: dict[tuple[str, str, str], tuple[float, bytes]] = {}
        self._lock = threading.Lock()

    def of(self, machine: DeclaredMachine) -> bytes | ProbeTrouble:
        """Return a Machine's key, or why it has none."""
        now, name = self._clock(), _name(machine)
        with self._lock:
            self._known = {one: known for one, known in self._known.items() if known[0] > now}
            if name in self._known:
                return self._known[name][1]
        reference = machine.spec.key_ref
        found = key_of_secret(self._cluster.get(SECRET, reference.name, machine.metadata.namespace), reference)
        if isinstance(found, bytes) and self._seconds:
            with self._lock:
                self._known[name] = now + self._seconds, found
        return found

    def judge(self, machine: DeclaredMachine, outcome: object) -> None:
        """Forget the key of a login whose machine refused it: its Secret may have another one by now."""
        if isinstance(outcome, ProbeTrouble) and outcome.reason is TroubleReason.KEY_REFUSED:
            with self._lock:
                self._known.pop(_name(machine), None)


def _name(machine: DeclaredMachine) -> tuple[str, str, str]:
    reference = machine.spec.key_ref
    return machine.metadata.namespace, reference.name, reference.key
