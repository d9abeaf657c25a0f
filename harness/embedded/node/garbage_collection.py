"""Garbage collection: remove machines without a launcher pod, networks without a namespace, and deleted foreign pods.

A foreign pod is one on this host's Node that is neither a machine's nor CDI's. The scheduler may bind any pod to
the Node that stands for this host, as long as that has no taint. On kind, under load, it was the one of CoreDNS
that its Deployment was about to replace. Nothing of it runs, and only a node's kubelet lets a bound pod go; without
one it would be deleted for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.cdi.claims import is_transfer_pod
from harness.embedded.context import Context
from harness.embedded.machines import Machines
from harness.embedded.node import pods
from harness.embedded.node.guests import Addresses, Guests
from harness.embedded.node.kubelet import instance_uid, is_launcher
from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import NAMESPACE, POD

HOST_SECONDS = 30.0  # between looks at the host for what no event told
HOST: Key = ("", "host")


class GarbageCollection:
    """Looks at the host at the start, whenever a namespace is gone, and now and then."""

    def __init__(self, context: Context, guests: Guests, machines: Machines, addresses: Addresses) -> None:
        self._guests = guests
        self._machines = machines
        self._addresses = addresses
        self._pods = context.informers.of(POD)
        self.controller = Controller("garbage-collection", self.reconcile, workers=1)
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
        return HOST_SECONDS


class ForeignPods:
    """Lets deleted pods go that nobody else on this node looks after."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods = context.informers.of(POD)
        self.controller = Controller("foreign-pods", self.reconcile, workers=1)
        self._pods.subscribe(self._changed)

    def _mine(self, pod: Json) -> bool:
        here = bool(pod["spec"].get("nodeName") == self._context.node)
        return here and deleting(pod) and not is_launcher(pod) and not is_transfer_pod(pod)

    def _changed(self, _: str, pod: Json) -> None:
        if self._mine(pod):
            self.controller.queue.add(key_of(pod))

    def reconcile(self, key: Key) -> None:
        """Look at one pod."""
        pod = self._pods.get(*key)
        if pod is not None and self._mine(pod):
            pods.remove(self._context.cluster, pod)
