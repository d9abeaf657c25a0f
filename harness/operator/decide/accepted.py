"""Whether an object is accepted as it stands, in the world as it is: the one answer of reconciles and of webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.kube.failures import Json
from harness.kube.kinds.models import ANEW
from harness.kube.kinds.page import SpecMistake
from harness.operator.api.cluster import AppliedHost, AppliedState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.components import PKI
from harness.operator.api.etcd import SAME_PLACE
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.networks import IPV6
from harness.operator.api.resources import ETCD_CLUSTER, REMOVE_SETS_ANNOTATION
from harness.operator.api.rules import own_playbooks, read, variable
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS, SAME_ROLES
from harness.operator.decide.desired import desired, groups_of
from harness.operator.decide.due import Situation
from harness.operator.decide.endpoint import address_mistakes, filled_endpoint
from harness.operator.decide.etcdclients import place_mistakes, prefix_mistakes
from harness.operator.decide.etcdclusters import is_etcd, read_etcd, version_mistakes
from harness.operator.decide.membership import majority_in_doubt, most_at_once
from harness.operator.decide.networks import filled
from harness.operator.decide.observed import Observed
from harness.operator.decide.variables import KnownReleases, load_releases, numbers, path_of, variables_of

# What machines and pods have of each other for as long as the cluster lives.
CANNOT_CHANGE = (
    *("cluster_network_plugin", "cluster_pod_cidr", "cluster_service_cidr", "cluster_dns_domain"),
    *("cluster_vxlan_vni", "cluster_ipv6_pod_cidr", "cluster_ipv6_service_cidr"),
    *("cluster_container_runtime", "cluster_certificates_folder"),
)
UNNAMED = {  # what a cluster has whose object names none
    "cluster_vxlan_vni": 1,
    "cluster_ipv6_pod_cidr": "",
    "cluster_ipv6_service_cidr": "",
    "cluster_certificates_folder": PKI,
}
TWO = 2  # members of etcd, on the way to three


def edit_mistakes(cd: ClusterDeployment, applied: AppliedState | None, *, lost: bool = False) -> list[SpecMistake]:
    """Return what is wrong with an object because of what was deployed; nothing where nothing was.

    Args:
        lost: too few of etcd's members are known to be well.
    """
    if applied is None:
        return []
    mistakes = [*_version(cd, applied, load_releases()), *_etcd_version(cd, applied), *_fixed(cd, applied)]
    return [*mistakes, *place_mistakes(cd, applied), *_sets(cd, applied, lost=lost)]


def _version(cd: ClusterDeployment, applied: AppliedState, releases: KnownReleases) -> Iterator[SpecMistake]:
    asked, running = cd.spec.version, applied.version
    if asked not in releases.kubernetes or numbers(asked) == numbers(running):
        return
    if numbers(asked) < numbers(running):
        message = f"Kubernetes {asked} is older than {running}, which is deployed, and cannot be gone back to"
        yield SpecMistake("spec.version", message, f"use {running} or newer")
    elif not releases.hops(running, asked):
        message = f"from Kubernetes {running} to {asked} a minor version is skipped that the release table lacks"
        near = [release for release in releases.kubernetes if releases.hops(running, release)]
        yield SpecMistake("spec.version", message, f"use {', '.join(near)} first" if near else f"use {running}")


def _etcd_version(cd: ClusterDeployment, applied: AppliedState) -> Iterator[SpecMistake]:
    asked, running = cd.spec.components.etcd, str(applied.variables.get(variable("etcd"), "0"))
    if asked is not None and numbers(asked) < numbers(running):
        message = f"etcd {asked} is older than {running}, which is deployed, and cannot be gone back to"
        yield SpecMistake("spec.components.etcd", message, f"use {running} or newer, or remove the field")


def _fixed(cd: ClusterDeployment, applied: AppliedState) -> Iterator[SpecMistake]:
    variables = variables_of(cd, {})
    for name in CANNOT_CHANGE:
        after = variables.get(name, UNNAMED.get(name))
        if applied.variables.get(name, UNNAMED.get(name, after)) != after:
            field = f"spec.variables.{name}" if name in cd.spec.variables else path_of(name)
            yield SpecMistake(field, f"{field.rpartition('.')[2]} cannot change", ANEW)


def _sets(cd: ClusterDeployment, applied: AppliedState, *, lost: bool) -> Iterator[SpecMistake]:
    sets = cd.spec.machine_sets
    external = any(GROUPS[ETCD] in host.groups and GROUPS[CONTROL_PLANE] not in host.groups for host in applied.hosts)
    if applied.hosts and external != any(
        machine_set.has(ETCD) and not machine_set.has(CONTROL_PLANE) for machine_set in sets
    ):
        yield SpecMistake("spec.machineSets", SAME_PLACE.message, SAME_PLACE.remedy)
        return
    before = {host.set_name: set(host.groups) for host in applied.hosts}
    for number, machine_set in enumerate(sets):
        if set(groups_of(machine_set, cd.spec)) != before.get(machine_set.name, set(groups_of(machine_set, cd.spec))):
            yield SpecMistake(f"spec.machineSets[{number}].roles", SAME_ROLES.message, SAME_ROLES.remedy)
    yield from _missing(cd, applied)
    yield from _majority(cd, applied, lost=lost)


def _missing(cd: ClusterDeployment, applied: AppliedState) -> Iterator[SpecMistake]:
    """Yield the sets that are missing though machines of them are deployed, unless somebody has confirmed that.

    Another set in the place of one is told of there: its machines would leave, and other ones join.
    """
    sets = cd.spec.machine_sets
    confirmed = cd.metadata.annotations.get(REMOVE_SETS_ANNOTATION, "").replace(",", " ").split()
    deployed: dict[str, list[AppliedHost]] = {}
    for host in applied.hosts:
        deployed.setdefault(host.set_name, []).append(host)
    for name, hosts in deployed.items():
        if not name or name in confirmed or any(machine_set.name == name for machine_set in sets):
            continue
        confirm = f"confirm with annotation {REMOVE_SETS_ANNOTATION}={','.join([*confirmed, name])}"
        places = (
            (number, machine_set.name)
            for number, machine_set in enumerate(sets)
            if machine_set.replicas
            and machine_set.name not in deployed
            and set(groups_of(machine_set, cd.spec)) == set(hosts[0].groups)
        )
        if (place := next(places, None)) is not None:
            number, other = place
            message = f"the machines of set {name} would leave the cluster, and others would join as {other}"
            remedy = f"keep the name; to replace its machines, add {other} first, and remove {name} afterwards"
            yield SpecMistake(f"spec.machineSets[{number}].name", message, f"{remedy}; or {confirm}")
        else:
            gone = ", ".join(host.machine for host in hosts)
            message = f"set {name} is missing, and its machines would leave the cluster: {gone}"
            remedy = f"put the set back, with replicas 0 to have them leave; or {confirm}"
            yield SpecMistake("spec.machineSets", message, remedy)


def _majority(cd: ClusterDeployment, applied: AppliedState, *, lost: bool) -> Iterator[SpecMistake]:
    """Yield the removal of more members of etcd than may leave at once; those that are lost are removed by nobody."""
    sets = cd.spec.machine_sets
    members = sum(GROUPS[ETCD] in host.groups for host in applied.hosts)
    count = sum(machine_set.replicas for machine_set in sets if GROUPS[ETCD] in groups_of(machine_set, cd.spec))
    most = most_at_once(members)
    if count > max(members, TWO) and count % 2 == 0:  # one grows to three by way of two
        message = f"{count} etcd members stand no more failures than {count - 1}"
        yield SpecMistake("spec.machineSets", message, f"use {count - 1} or {count + 1}")
    if members - count > most and not lost:
        message = f"of {members} etcd members {members - count} would leave, and the others are no majority"
        yield SpecMistake("spec.machineSets", message, f"remove {most} at a time")


NO_IMAGE = SpecMistake(
    "spec.playbooks.image", "no image of the executor is known", "set it, or start the manager with --executor-image"
)


def judged(
    deployment: Json,
    machines: Sequence[DeclaredMachine],
    world: Observed,
    image: str,
) -> tuple[ClusterDeployment | None, list[SpecMistake]]:
    """Return a ClusterDeployment with all defaults, None when it has another form, and what is wrong with it.

    Args:
        deployment: it, or an EtcdCluster, which is returned as the one that it would be.
        machines: those that it has claimed.
        world: what is observed of them, of its Cluster and of backups.
        image: of executors whose object names none; "" for none.
    """
    if is_etcd(deployment):
        etcd, wrong = read_etcd(deployment, world.applied, creating=not world.sequence)
        imageless = etcd is not None and not (etcd.spec.playbooks.image or image)
        return etcd, [*wrong, *([NO_IMAGE] if imageless else [])]
    known = (text for m in machines for text in (m.address, m.ipv6_address) if text)
    addresses = [f"{text}/{128 if ':' in text else 32}" for text in known]
    deployment = filled_endpoint(filled(deployment, world.networks), world.endpoint)
    wish, mistakes = read(deployment, load_releases().kubernetes, addresses, creating=not world.sequence)
    if wish is None:
        return None, mistakes
    if not (wish.spec.playbooks.image or image):
        mistakes = [*mistakes, NO_IMAGE]
    mistakes += [*_families(wish, machines), *address_mistakes(wish, machines), *prefix_mistakes(wish, world)]
    return wish, [*mistakes, *against(wish, machines, world)]


def _families(wish: ClusterDeployment, machines: Sequence[DeclaredMachine]) -> Iterator[SpecMistake]:
    """Yield the families of the cluster's networks that a machine has no address of, as soon as it has any."""
    if own_playbooks(wish):
        return
    for machine in machines:
        lacking = [family for family in wish.spec.network.families if family not in machine.families]
        if not machine.address or not lacking:
            continue
        remedy = f"set spec.{'ipv6Address' if lacking == [IPV6] else 'address'} of the Machine"
        if machine.made:
            remedy = "make the machines in an infra cluster that gives pods addresses of both"
        message = f"Machine {machine.metadata.name} has no {' and no '.join(lacking)} address"
        yield SpecMistake("spec.network.ipFamilies", message, f"{remedy}, or use other networks")


def against(wish: ClusterDeployment, machines: Sequence[DeclaredMachine], world: Observed) -> list[SpecMistake]:
    """Return what is wrong with a wish for a cluster as it is.

    Args:
        machines: those that it has claimed.
    """
    if wish.kind == ETCD_CLUSTER.kind:
        return list(version_mistakes(wish, world.applied))
    doubtful = world.ill or world.lost or world.silent or world.unsettled
    if not doubtful:
        return edit_mistakes(wish, world.applied)
    situation = Situation.of(desired(wish, machines, load_releases(), world.applied), world)
    return edit_mistakes(wish, world.applied, lost=majority_in_doubt(situation.desired, world, situation.who))
