"""What is wanted of a cluster: its hosts, the variables of the playbooks, and digests to compare by."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any

from harness.operator.api.cluster import AppliedHost, AppliedState
from harness.operator.api.clusterdeployment import ClusterDeployment, ClusterDeploymentSpec
from harness.operator.api.endpoint import api_names
from harness.operator.api.machine import DeclaredMachine, KeyRef
from harness.operator.api.resources import DELETE_ANNOTATION, ETCD_CLUSTER, RETRY_ANNOTATION
from harness.operator.api.rules import (
    API_NAMES,
    ETCD_ENDPOINTS,
    ETCD_USERS,
    HOSTS,
    VIRTUAL_ADDRESS,
    Part,
    variable,
)
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS, WantedSet
from harness.operator.decide.etcdclusters import own_words
from harness.operator.decide.product_file import KnownProduct
from harness.operator.decide.spread import Spreading, leaving_in_order
from harness.operator.decide.variables import (
    PARTS,
    KnownReleases,
    in_part,
    numbers,
    path_of,
    variables_of,
    versions_of,
    with_parts,
)
from harness.spec.networks import IPV6_PODS, PODS


@dataclass(frozen=True)
class Host:
    """A claimed machine.

    name: in the inventory, and as a node.  machine: its Machine.  set_name: of the set that it was claimed for.
    groups: of the inventory; none where the spec has no such set any more.
    key: the Secret with the SSH key.  through: the VirtualMachineInstance that connections lead through, "" for none.
    made: it goes when its cluster has no use for it; nothing on it has to be undone.
    ipv6_address: besides `address`, which is for logins whatever its family is.
    """

    name: str
    machine: str
    set_name: str
    groups: tuple[str, ...]
    address: str
    port: int
    user: str
    key: KeyRef
    through: str
    made: bool = False
    ipv6_address: str = ""


def applied_host(host: Host) -> AppliedHost:
    """Return a host as a Cluster remembers it."""
    return AppliedHost(**{field.name: getattr(host, field.name) for field in fields(Host)})


def remembered_host(host: AppliedHost) -> Host:
    """Return a host that a Cluster remembers."""
    return Host(**{field.name: getattr(host, field.name) for field in fields(Host)})


def hosts_of(cd: ClusterDeployment, machines: Iterable[DeclaredMachine]) -> tuple[Host, ...]:
    """Return the machines that a cluster has claimed, in the inventory's order."""
    groups = {machine_set.name: groups_of(machine_set, cd.spec) for machine_set in cd.spec.machine_sets}
    mine = (_host(machine, groups) for machine in machines if _claimed_by(cd, machine))
    return in_order(mine, cd.spec.machine_sets)


def in_order(hosts: Iterable[Host], sets: Iterable[WantedSet]) -> tuple[Host, ...]:
    """Return hosts in the inventory's order: control planes first, then as the sets are, then by name."""
    places = {machine_set.name: number for number, machine_set in enumerate(sets)}
    return tuple(
        sorted(
            hosts,
            key=lambda host: (
                GROUPS[CONTROL_PLANE] not in host.groups,
                places.get(host.set_name, len(places)),
                natural(host.name),
            ),
        )
    )


def groups_of(machine_set: WantedSet, spec: ClusterDeploymentSpec) -> tuple[str, ...]:
    """Return the inventory groups of a set's machines.

    Without a set for etcd, and without an EtcdCluster that the object names, it runs on the control planes.
    """
    stacked = spec.etcd.cluster_ref is None and not any(other.has(ETCD) for other in spec.machine_sets)
    roles = {*machine_set.roles, *([ETCD] if stacked and machine_set.has(CONTROL_PLANE) else [])}
    return tuple(group for role, group in GROUPS.items() if role in roles)


def _claimed_by(cd: ClusterDeployment, machine: DeclaredMachine) -> bool:
    """Tell whether a machine is claimed by this very object; one of the same name may have come before it."""
    claim = machine.spec.claim
    own = (cd.metadata.namespace, cd.metadata.name, cd.metadata.uid)
    return claim is not None and (machine.metadata.namespace, claim.cluster, claim.uid) == own


def _host(machine: DeclaredMachine, groups: Mapping[str, tuple[str, ...]]) -> Host:
    spec, claim = machine.spec, machine.spec.claim
    set_name = claim.set_name if claim is not None else ""
    return Host(
        name=machine.hostname,
        machine=machine.metadata.name,
        set_name=set_name,
        groups=groups.get(set_name, ()),
        address=machine.address,
        port=spec.port,
        user=spec.user,
        key=spec.key_ref,
        through=machine.instance,
        made=machine.made,
        ipv6_address=machine.ipv6_address,
    )


def inventory_of(variables: Mapping[str, Any], hosts: Iterable[Host]) -> list[dict[str, str]]:
    """Return machines as `cluster_hosts` has them: with addresses of the families that the cluster has."""
    first_is_6, dual = ":" in str(variables.get(PODS, "")), bool(variables.get(IPV6_PODS))
    made = []
    for host in hosts:
        address = (host.ipv6_address or host.address) if first_is_6 else host.address
        second = {"ipv6_address": host.ipv6_address} if dual and host.ipv6_address else {}
        made.append({"name": host.name, "address": address, **second})
    return made


def natural(name: str) -> list[tuple[int, str]]:
    """Return what orders names as people do: w-2 before w-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def scale_in_order(machines: Iterable[DeclaredMachine], spreading: Mapping[str, Spreading] | None = None) -> list[str]:
    """Return the names of machines: not ready ones first, then those that a person marked, then the last made.

    Args:
        spreading: by set, over what it is spread; of such a set, machines of the fullest domain come before others.
    """
    latest = sorted(
        machines, key=lambda machine: (machine.metadata.creation_timestamp or "", natural(machine.metadata.name))
    )
    latest.reverse()
    ordered = sorted(latest, key=_rank)
    sets = [machine.spec.claim.set_name if machine.spec.claim is not None else "" for machine in ordered]
    names = [machine.metadata.name for machine in ordered]
    for name, over in (spreading or {}).items():
        places = [place for place, own in enumerate(sets) if own == name]
        own = [ordered[place] for place in places]
        first = sum(_rank(machine) != (True, True) for machine in own)
        domains = [(machine.metadata.name, over.domain_of(machine.model_dump(by_alias=True))) for machine in own]
        for place, machine in zip(places, leaving_in_order(domains, first), strict=True):
            names[place] = machine
    return names


def spreading_of(sets: Iterable[WantedSet]) -> dict[str, Spreading]:
    """Return over what each set is spread that asks for it, by name."""
    return {
        machine_set.name: Spreading.of(machine_set.model_dump(by_alias=True, mode="json"))
        for machine_set in sets
        if machine_set.failure_domains
    }


def _rank(machine: DeclaredMachine) -> tuple[bool, bool]:
    return machine.status.phase == "Ready", DELETE_ANNOTATION not in machine.metadata.annotations


EMPTY: Mapping[str, Any] = MappingProxyType({})
DIGITS = 16  # of a digest: 64 bits tell a cluster's few inputs apart, and a person can compare them


@dataclass(frozen=True)
class Desired:
    """A wish, complete enough to be carried out.

    wish: the object, with all defaults.  hosts: the claimed machines, in the inventory's order.
    variables: of the playbooks, but for those that only the executor knows (`variables.OF_THE_EXECUTOR`).
    digests: of each part of the cluster.  digest: of the whole wish.
    inputs: what every operation is given besides its variables and machines.
    scale_in: Machines in the order in which sets give them up.  releases: the table.
    refused: what is wrong with the object; nothing is deployed while there is anything.
    """

    wish: ClusterDeployment
    hosts: tuple[Host, ...]
    variables: Mapping[str, Any]
    digests: Mapping[str, str]
    digest: str
    inputs: Mapping[str, Any]
    scale_in: tuple[str, ...]
    releases: KnownReleases
    refused: tuple[str, ...] = ()
    product: KnownProduct | None = None

    @property
    def spec(self) -> ClusterDeploymentSpec:
        """Return the wanted cluster."""
        return self.wish.spec

    @property
    def etcd_alone(self) -> bool:
        """Tell whether the object is an EtcdCluster."""
        return self.wish.kind == ETCD_CLUSTER.kind

    @property
    def release(self) -> str:
        """Return what is wanted, and in which version, in words."""
        etcd = self.spec.components.etcd
        return f"etcd {etcd}" if self.etcd_alone else f"Kubernetes {self.spec.version}"

    def in_words(self, text: str) -> str:
        """Return a text that names fields of a ClusterDeployment with those of the object."""
        return own_words(text) if self.etcd_alone else text

    def place_of(self, name: str) -> str:
        """Return the field of a set."""
        return "spec" if self.etcd_alone else f"spec.machineSets[{name}]"

    @property
    def deleting(self) -> bool:
        """Tell whether somebody deleted the object."""
        return self.wish.metadata.deletion_timestamp is not None

    @property
    def machines(self) -> tuple[str, ...]:
        """Return the names of the claimed Machines."""
        return tuple(host.machine for host in self.hosts)


def desired(
    cd: ClusterDeployment,
    machines: Iterable[DeclaredMachine],
    releases: KnownReleases,
    applied: AppliedState | None = None,
    refused: Sequence[str] = (),
    product: KnownProduct | None = None,
    around: Mapping[str, Any] = EMPTY,
) -> Desired:
    """Return what an object wants.

    Args:
        cd: with all defaults.  machines: all that there are; those that it has not claimed do not count.
        applied: what was deployed last, if anything.  refused: what is wrong with the object.
        product: what the product file of the object's playbooks says, where it names one that can be used.
        around: variables that other objects give (`etcdclients.variables_around`).
    """
    known = tuple(machines)
    hosts = hosts_of(cd, known)
    variables = {**variables_of(cd, versions_of(cd, releases, applied)), **around}
    variables[HOSTS] = inventory_of(variables, hosts)
    known_names = api_names(cd.spec.way, cd.metadata.name, cd.metadata.namespace) is not None
    if not known_names and applied is not None:  # machines change once it is known to what
        kept = (name for name in (API_NAMES, VIRTUAL_ADDRESS) if name in applied.variables)
        variables |= {name: applied.variables[name] for name in kept}
    inputs = {  # with variables and machines all that decides how an operation ends, and what asks for it again
        "image": cd.spec.playbooks.image,
        **({"product": product.digest} if product is not None else {}),
        "access": cd.spec.access,
        "deadline": cd.spec.jobs.deadline_seconds,
        "retry": cd.metadata.annotations.get(RETRY_ANNOTATION),
    }
    whole = digest_of({**inputs, "variables": variables, "hosts": plain_hosts(hosts)})
    order = tuple(scale_in_order(known, spreading_of(cd.spec.machine_sets)))
    return Desired(cd, hosts, variables, digests_of(variables), whole, inputs, order, releases, tuple(refused), product)


def digests_of(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each part of a cluster."""
    return {part: digest_of(in_part(variables, part)) for part in PARTS}


def plain_hosts(hosts: Iterable[Host]) -> list[dict[str, Any]]:
    """Return hosts as plain data."""
    made = ({**asdict(host), "key": host.key.model_dump()} for host in hosts)
    return [{name: value for name, value in host.items() if name != "ipv6_address" or value} for host in made]


def digest_of(content: Any) -> str:
    """Return the digest of plain data, over its canonical JSON: keys in order, no spaces, 2.0 as 2."""
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _plain(content: Any) -> Any:
    """Return plain data with whole numbers as an API server writes them, whatever a file has."""
    if isinstance(content, Mapping):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return int(content) if isinstance(content, float) and content.is_integer() else content


@dataclass(frozen=True)
class Hop:
    """One step. version: of Kubernetes.  last: whether the wish is reached.  variables: all, as they are after it."""

    version: str
    last: bool
    variables: Mapping[str, Any]


def next_hop(desired: Desired, applied: AppliedState) -> Hop:
    """Return the next step from what was applied.

    Where machines get files from is as wished on the whole way. Settings are those of the cluster until the last
    step: they are meant for the wished version, which takes them on together with it.
    """
    way = desired.releases.hops(applied.version, desired.spec.version)
    if len(way) < 2:
        variables = with_parts(applied.variables, desired.variables, None, "version", "source", "settings")
        return Hop(desired.spec.version, True, variables)
    version = way[0]
    made = with_parts(applied.variables, desired.variables, None, "source")
    made[variable("kubernetes")] = version
    for name, known in desired.releases.kubernetes.get(version, {}).items():
        made[variable(name)] = max(known, str(made.get(variable(name), "0")), key=numbers)  # etcd never goes back
    return Hop(version, False, made)


LISTS = {API_NAMES: "names of the API servers", ETCD_ENDPOINTS: "members of etcd"}
LONGEST = 40  # characters of a value that a reason repeats
FOLLOWING = tuple(map(variable, ("etcd", "coredns", "pause")))  # versions that change with Kubernetes' own


def differing(desired: Desired, applied: AppliedState, *parts: Part) -> list[str]:
    """Return what is different in these parts of a cluster."""
    return [sentence for part in parts for sentence in _in_part(desired, applied, part)]


def _in_part(desired: Desired, applied: AppliedState, part: Part) -> list[str]:
    before, after = in_part(applied.variables, part), in_part(desired.variables, part)
    if digest_of(before) == desired.digests[part]:
        return []
    names = [name for name in dict.fromkeys((*after, *before)) if before.get(name) != after.get(name)]
    if variable("kubernetes") in names:
        names = [name for name in names if name not in FOLLOWING]
    sentences = [desired.in_words(_change(name, before, after)) for name in names]
    return sentences or [f"{part} of the cluster differ from what was deployed"]


def moved(members: Iterable[Host], applied: AppliedState) -> list[str]:
    """Return which machines of the cluster are at another address."""
    before = {host.machine: remembered_host(host) for host in applied.hosts}
    moves = (
        (host.machine, old, new)
        for host in members
        if host.machine in before
        for old, new in zip(
            _addresses(applied.variables, before[host.machine]), _addresses(applied.variables, host), strict=True
        )
    )
    return [f"{name} has another address: {old} -> {new}" for name, old, new in dict.fromkeys(moves) if old != new]


def _addresses(variables: Mapping[str, Any], host: Host) -> tuple[str, str, str]:
    """Return the address for logins, and those that the cluster knows."""
    entry = inventory_of(variables, [host])[0]
    return host.address, entry["address"], entry.get("ipv6_address", "none")


def _change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    old, new = before.get(name), after.get(name)
    if name in LISTS:
        return f"{LISTS[name]}: {_difference(old or (), new or ())}"
    if name == ETCD_USERS:
        users = [[f"{user['name']} ({user['prefix']})" for user in some or ()] for some in (old, new)]
        return f"users of etcd: {_difference(*users)}"
    if all(value is None or isinstance(value, str | int | float) for value in (old, new)):
        return f"{path_of(name)}: {_short(old)} -> {_short(new)}"
    return f"{path_of(name)} changed"


def _difference(old: Sequence[str], new: Sequence[str]) -> str:
    lost, more = [[name for name in a if name not in b] for a, b in ((old, new), (new, old))]
    return ", ".join([*(f"+{name}" for name in more), *(f"-{name}" for name in lost)])


def _short(value: Any) -> str:
    text = "none" if value in (None, "") else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
