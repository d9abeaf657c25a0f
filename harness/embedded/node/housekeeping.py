"""What nobody asks for any more goes: machines without a launcher, networks without a namespace."""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.context import Context
from harness.embedded.machines import Machines
from harness.embedded.node.addresses import Addresses
from harness.embedded.node.guests import Guests
from harness.embedded.node.kubelet import instance_uid, is_launcher
from harness.kube.informer import Key
from harness.kube.objects import phase
from harness.kube.reconcile import Controller
from harness.kube.resources import NAMESPACE, POD

AGAIN_SECONDS = 30.0  # between looks at the host for what no event told
HOST: Key = ("", "host")


class Housekeeping:
    """Looks at the host at the start, whenever a namespace is gone, and now and then."""

    def __init__(self, context: Context, guests: Guests, machines: Machines, addresses: Addresses) -> None:
        self._guests = guests
        self._machines = machines
        self._addresses = addresses
        self._pods = context.informers.of(POD)
        self.controller = Controller("housekeeping", self.reconcile, workers=1)
        self.controller.queue.add(HOST)
        context.informers.of(NAMESPACE).subscribe(
            lambda kind, _: self.controller.queue.add(HOST) if kind == "DELETED" else None
        )

    def _wanted(self) -> Iterator[str]:
        return (
            instance_uid(p) for p in self._pods.list() if is_launcher(p) and phase(p) not in {"Succeeded", "Failed"}
        )

    def reconcile(self, _: Key) -> float:
        """Look at the whole host."""
        self._guests.kill_others(self._wanted)
        with self._addresses.lock:
            for index in sorted(self._guests.networks() - self._addresses.claimed()):
                self._machines.remove_network(index)
        return AGAIN_SECONDS
