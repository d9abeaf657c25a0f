"""Which networks a cluster gets of a pool: the first that nobody has, or those that it names; pure.

The pool's status is the ledger. It is written before anything uses a network, and by one writer at a time, because a
write on an older version of the object is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.kube.failures import Json
from harness.kube.objects import dig
from harness.operator.api.cluster import NetworksState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.components import DEFAULT_PORT, network_of
from harness.operator.api.networks import ClusterNetworkPool, NetworkRange, NumberRange, PoolAllocation
from harness.operator.decide.due import Situation, Wait, WaitReason

NOT_YET = "its networks are not allocated yet"


class NetworksRefused(ValueError):
    """A cluster gets no networks. reason: one word for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class _Ledger:
    """A pool, and what other clusters have of it."""

    pool: ClusterNetworkPool
    others: Sequence[PoolAllocation]

    @property
    def name(self) -> str:
        return f"ClusterNetworkPool {self.pool.metadata.name}"

    def refuse(self, field: str, wanted: str | None) -> None:
        """Raise NetworksRefused where a network that is wanted has addresses of another cluster."""
        asked = network_of(wanted)
        for text, owner in self._networks():
            other = network_of(text)
            if asked is not None and other is not None and asked.overlaps(other):
                said = f"spec.network.{field}: {wanted} overlaps {other} of cluster {owner} in {self.name}"
                raise NetworksRefused("Conflict", f"{said}: choose another network, or leave the field out")

    def network(self, field: str, wanted: str | None, own: Iterable[str], ranges: Sequence[NetworkRange]) -> str:
        """Return a network that is a cluster's alone: the wanted one, or the first of the ranges.

        Args:
            own: other networks that the cluster names.
        """
        if wanted is not None:
            return wanted
        texts = [*(text for text, _ in self._networks()), *own]
        known = [found for text in texts if (found := network_of(text)) is not None]
        parts = (part for one in ranges for part in one.parts())
        free = next((part for part in parts if not any(part.overlaps(other) for other in known)), None)
        if free is None:
            sizes = ", ".join(f"/{one.prefix} of {one.cidr}" for one in ranges)
            raise NetworksRefused("Exhausted", f"{self.name} has no {field} left: {self._all(sizes)}")
        return str(free)

    def number(self, field: str, wanted: int | None, numbers: NumberRange, taken: dict[int, str]) -> int:
        """Return a number that is a cluster's alone: the wanted one, or the first of the range."""
        if wanted is not None:
            if wanted in taken:
                said = f"spec.network.vxlan.{field}: {wanted} is that of cluster {taken[wanted]} in {self.name}"
                raise NetworksRefused("Conflict", f"{said}: choose another number, or leave the field out")
            return wanted
        free = next((n for n in range(numbers.first, numbers.last + 1) if n not in taken), None)
        if free is None:
            said = self._all(f"from {numbers.first} to {numbers.last}")
            raise NetworksRefused("Exhausted", f"{self.name} has no VXLAN {field} left: {said}")
        return free

    def owners(self, field: str) -> dict[int, str]:
        """Return who has each number."""
        return {getattr(one, field): _owner(one) for one in self.others}

    def _all(self, what: str) -> str:
        return f"{len(self.others)} clusters have all that there are ({what}): add a range, or delete a cluster"

    def _networks(self) -> list[tuple[str, str]]:
        return [(text, _owner(one)) for one in self.others for text in (one.pods, one.services)]


def _owner(one: PoolAllocation) -> str:
    return f"{one.namespace}/{one.cluster}"


def allocation(pool: ClusterNetworkPool, cd: ClusterDeployment) -> PoolAllocation:
    """Return what a cluster has of a pool, or gets of it.

    Raises:
        NetworksRefused: the pool has mistakes or nothing left, or another cluster has what this one names.
    """
    meta, network = cd.metadata, cd.spec.network
    mine = next((one for one in pool.status.allocations if one.uid == meta.uid), None)
    if mine is not None:
        return mine
    pods, services, vni, port = _shared_out(pool, network.pods, network.services, network.vxlan.vni, network.vxlan.port)
    return PoolAllocation(
        uid=meta.uid, namespace=meta.namespace, cluster=meta.name, pods=pods, services=services, vni=vni, port=port
    )


def _shared_out(
    pool: ClusterNetworkPool, pods: str | None, services: str | None, vni: int | None, port: int | None
) -> tuple[str, str, int, int]:
    """Return a network for pods, one for Services, a VXLAN number and a port: those that are wanted, or free ones."""
    wrong = [rule for _, rule in pool.broken(creating=True)]
    if wrong:
        raise NetworksRefused("PoolInvalid", f"ClusterNetworkPool {pool.metadata.name}: {wrong[0].message}")
    ledger, spec = _Ledger(pool, pool.status.allocations), pool.spec
    named = [text for text in (pods, services) if text is not None]
    ledger.refuse("pods", pods)
    ledger.refuse("services", services)
    pods = ledger.network("pods", pods, named, spec.pods)
    services = ledger.network("services", services, [*named, pods], spec.services)
    vni = ledger.number("vni", vni, spec.vxlan.vnis, ledger.owners("vni"))
    if spec.vxlan.ports is None:
        return pods, services, vni, port or DEFAULT_PORT
    return pods, services, vni, ledger.number("port", port, spec.vxlan.ports, ledger.owners("port"))


def available(pool: ClusterNetworkPool, entries: Sequence[PoolAllocation]) -> tuple[bool, str, str]:
    """Return whether another cluster would get something of a pool with these entries: status, reason, message."""
    status = pool.status.model_copy(update={"allocations": tuple(entries)})
    try:
        _shared_out(pool.model_copy(update={"status": status}), None, None, None, None)
    except NetworksRefused as refused:
        return False, refused.reason, str(refused)
    return True, "Available", f"{len(entries)} clusters have a part of it"


def filled(deployment: Json, networks: NetworksState | None) -> Json:
    """Return a ClusterDeployment with the networks that it was given, where it names none."""
    if networks is None or not networks.allocated:
        return deployment
    network = dig(deployment, "spec", "network")
    vxlan = network.get("vxlan") or {} if isinstance(network, dict) else None
    if not isinstance(network, dict) or not isinstance(vxlan, dict) or network.get("pool") != networks.pool:
        return deployment  # it has mistakes, which are told elsewhere
    given = {"pods": networks.pods, "services": networks.services, **network}
    given["vxlan"] = {"vni": networks.vni, "port": networks.port, **vxlan}
    return {**deployment, "spec": {**deployment["spec"], "network": given}}


def networks_missing(found: Situation) -> Wait | None:
    """Wait for the networks of a cluster that gets them of a pool."""
    if found.desired.spec.network.pool is None:
        return None
    state = found.observed.networks
    if state is not None and state.allocated:
        return None
    return Wait(WaitReason.WAITING_FOR_NETWORKS, (state.message if state is not None else "") or NOT_YET)
