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
from harness.operator.api.networks import (
    DEFAULT_PORT,
    IPV4,
    IPV6,
    PLACES,
    VERSIONS,
    ClusterNetwork,
    ClusterNetworkPool,
    IpFamily,
    NetworkRange,
    NumberRange,
    PoolAllocation,
    network_of,
)
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

    def refuse(self, field: str, asked_text: str | None) -> None:
        """Raise NetworksRefused where a network that is wanted has addresses of another cluster."""
        asked = network_of(asked_text)
        for text, owner in self._networks():
            other = network_of(text)
            if asked is not None and other is not None and asked.overlaps(other):
                message = f"spec.network.{field}: {asked_text} overlaps {other} of cluster {owner} in {self.name}"
                raise NetworksRefused("Conflict", f"{message}: choose another network, or leave the field out")

    def network(self, field: str, version: int, own: Iterable[str], ranges: Sequence[NetworkRange]) -> str:
        """Return the first network of the ranges that is nobody's.

        Args:
            version: of IP.  own: other networks that the cluster has.
        """
        texts = [*(text for text, _ in self._networks()), *own]
        known = [parsed for text in texts if (parsed := network_of(text)) is not None]
        parts = (
            part
            for network_range in ranges
            if network_range.network and network_range.network.version == version
            for part in network_range.parts()
        )
        free = next((part for part in parts if not any(part.overlaps(other) for other in known)), None)
        if free is None:
            known_ranges = [
                network_range
                for network_range in ranges
                if network_range.network and network_range.network.version == version
            ]
            if not known_ranges:
                message = f"{self.name} has no range of IPv{version} for {field}: add one, or set spec.network.{field}"
                raise NetworksRefused("NoRange", message)
            sizes = ", ".join(f"/{network_range.prefix} of {network_range.cidr}" for network_range in known_ranges)
            raise NetworksRefused("Exhausted", f"{self.name} has no {field} left: {self._all(sizes)}")
        return str(free)

    def number(self, field: str, asked: int | None, numbers: NumberRange, taken: dict[int, str]) -> int:
        """Return a number that is a cluster's alone: the wanted one, or the first of the range."""
        if asked is not None:
            if asked in taken:
                message = f"spec.network.vxlan.{field}: {asked} is that of cluster {taken[asked]} in {self.name}"
                raise NetworksRefused("Conflict", f"{message}: choose another number, or leave the field out")
            return asked
        free = next((n for n in range(numbers.first, numbers.last + 1) if n not in taken), None)
        if free is None:
            message = self._all(f"from {numbers.first} to {numbers.last}")
            raise NetworksRefused("Exhausted", f"{self.name} has no VXLAN {field} left: {message}")
        return free

    def owners(self, field: str) -> dict[int, str]:
        """Return who has each number."""
        return {getattr(other, field): _owner(other) for other in self.others}

    def _all(self, what: str) -> str:
        return f"{len(self.others)} clusters have all that there are ({what}): add a range, or delete a cluster"

    def _networks(self) -> list[tuple[str, str]]:
        return [(text, _owner(other)) for other in self.others for text in other.by_field.values() if text is not None]


def _owner(entry: PoolAllocation) -> str:
    return f"{entry.namespace}/{entry.cluster}"


def allocation(pool: ClusterNetworkPool, cd: ClusterDeployment) -> PoolAllocation:
    """Return what a cluster has of a pool, or gets of it.

    Raises:
        NetworksRefused: the pool has mistakes or nothing left, or another cluster has what this one names.
    """
    meta, network = cd.metadata, cd.spec.network
    mine = next((entry for entry in pool.status.allocations if entry.uid == meta.uid), None)
    if mine is not None:
        return mine
    texts, vni, port = _shared_out(pool, network, network.families or pool.spec.families[:1] or (IPV4,))
    networks = {field: texts[field] for field in PLACES if field in texts}
    return PoolAllocation(uid=meta.uid, namespace=meta.namespace, cluster=meta.name, vni=vni, port=port, **networks)


def _shared_out(
    pool: ClusterNetworkPool, network: ClusterNetwork, families: Sequence[IpFamily]
) -> tuple[dict[str, str], int, int]:
    """Return the networks of a cluster by their fields, a VXLAN number and a port: those it names, or free ones."""
    wrong = [rule for _, rule in pool.broken(creating=True)]
    if wrong:
        raise NetworksRefused("PoolInvalid", f"ClusterNetworkPool {pool.metadata.name}: {wrong[0].message}")
    ledger, spec = _Ledger(pool, pool.status.allocations), pool.spec
    named = {field: text for field, text in network.by_field.items() if text is not None}
    for field, text in named.items():
        ledger.refuse(field, text)
    ranges = {"pods": spec.pods, "services": spec.services, "ipv6Pods": spec.pods, "ipv6Services": spec.services}
    family_of = dict.fromkeys(("pods", "services"), families[0])
    family_of |= dict.fromkeys(("ipv6Pods", "ipv6Services"), IPV6) if len(families) > 1 else {}
    made = dict(named)
    for field, family in family_of.items():
        if field not in made:
            made[field] = ledger.network(field, VERSIONS[family], made.values(), ranges[field])
    vxlan = network.vxlan
    vni = ledger.number("vni", vxlan.vni, spec.vxlan.vnis, ledger.owners("vni"))
    if spec.vxlan.ports is None:
        return made, vni, vxlan.port or DEFAULT_PORT
    return made, vni, ledger.number("port", vxlan.port, spec.vxlan.ports, ledger.owners("port"))


def available(pool: ClusterNetworkPool, entries: Sequence[PoolAllocation]) -> tuple[bool, str, str]:
    """Return whether another cluster would get something of a pool with these entries: status, reason, message."""
    status = pool.status.model_copy(update={"allocations": tuple(entries)})
    nothing = ClusterNetwork(pool=pool.metadata.name)
    try:
        _shared_out(pool.model_copy(update={"status": status}), nothing, pool.spec.families or (IPV4,))
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
    told = networks.model_dump(by_alias=True, include={"pods", "services", "ipv6_pods", "ipv6_services"})
    filled_network = {**{field: text for field, text in told.items() if text is not None}, **network}
    filled_network["vxlan"] = {"vni": networks.vni, "port": networks.port, **vxlan}
    return {**deployment, "spec": {**deployment["spec"], "network": filled_network}}


def networks_missing(situation: Situation) -> Wait | None:
    """Wait for the networks of a cluster that gets them of a pool."""
    if situation.desired.spec.network.pool is None:
        return None
    state = situation.observed.networks
    if state is not None and state.allocated:
        return None
    return Wait(WaitReason.WAITING_FOR_NETWORKS, (state.message if state is not None else "") or NOT_YET)
