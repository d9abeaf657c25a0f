"""Addresses of launcher pods: a network per VM namespace, an address in it per pod.

A namespace's network index is written on the Namespace, a pod's address in its status, so nothing is lost when this
process is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.embedded.machines.names import FIRST_SPARE, PODS_NETWORK
from harness.errors import InfraError
from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer
from harness.kube.objects import deleting, dig
from harness.kube.resources import NAMESPACE

NETWORK_INDEX = "local.vmatrix.dev/network-index"
FIRST_NETWORK, LAST_NETWORK = 1, PODS_NETWORK - 1
FIRST_HOST, LAST_HOST = 2, FIRST_SPARE - 1  # .1 is the host's end, .254 the guests' default gateway


def index_of(namespace: Json) -> int | None:
    """Return the network index written on a namespace."""
    text = (namespace["metadata"].get("annotations") or {}).get(NETWORK_INDEX, "")
    return int(text) if text.isdigit() else None


@dataclass
class Addresses:
    """Gives out network indices and addresses; unique, also while several pods ask at once."""

    cluster: Cluster
    namespaces: Informer
    pods: Informer
    second_octet: int
    lock: threading.RLock = field(default_factory=threading.RLock)  # under it indices and addresses are given out
    _given: dict[str, str] = field(default_factory=dict)  # pod uid -> address
    _last: dict[int, int] = field(default_factory=dict)  # network index -> last host number given

    def network(self, namespace: str, *, on_host: Iterable[int] = ()) -> int:
        """Return a namespace's network index, giving it one at first.

        Args:
            on_host: networks that are still on the host, perhaps of a namespace that is gone: not given anew.

        Raises:
            InfraError: the namespace is gone or going, or all indices are taken.
        """
        with self.lock:
            found = self.namespaces.get("", namespace) or self.cluster.get(NAMESPACE, namespace)
            if found is None:
                raise InfraError(f"namespace {namespace} is gone")
            known = index_of(found)
            if known is not None:
                return known
            if deleting(found):
                raise InfraError(f"namespace {namespace} is being deleted")
            taken = self.claimed() | set(on_host)
            free = next((n for n in range(FIRST_NETWORK, LAST_NETWORK + 1) if n not in taken), None)
            if free is None:
                raise InfraError(f"all {LAST_NETWORK} VM networks of this infrastructure are in use")
            patch = {"metadata": {"annotations": {NETWORK_INDEX: str(free)}}}
            self.namespaces.observe(self.cluster.merge(NAMESPACE, namespace, patch))
            return free

    def claimed(self) -> set[int]:
        """Return the indices that namespaces hold."""
        with self.lock:
            return {n for namespace in self.namespaces.list() if (n := index_of(namespace)) is not None}

    def address(self, pod: Json, network: int) -> str:
        """Return a pod's address, giving it one at first; a freed one is given again as late as possible.

        Raises:
            InfraError: the namespace's network is full.
        """
        own = dig(pod, "status", "podIP")
        if own:
            return str(own)
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        with self.lock:
            living = {p["metadata"]["uid"]: p for p in self.pods.list(namespace)}
            prefix = f"10.{self.second_octet}.{network}."
            self._given = {u: a for u, a in self._given.items() if u in living or not a.startswith(prefix)}
            if uid not in self._given:
                taken = {dig(p, "status", "podIP") for p in living.values()} | set(self._given.values())
                self._given[uid] = self._next(network, taken)
            return self._given[uid]

    def _next(self, network: int, taken: set[str]) -> str:
        after = self._last.get(network, FIRST_HOST - 1)
        for host in (*range(after + 1, LAST_HOST + 1), *range(FIRST_HOST, after + 1)):
            address = f"10.{self.second_octet}.{network}.{host}"
            if address not in taken:
                self._last[network] = host
                return address
        raise InfraError(f"network {network} has no free address")
