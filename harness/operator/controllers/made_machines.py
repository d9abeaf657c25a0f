"""The Machines that a set has made for it: how many are missing, and what each new one is; pure.

A number is used once. A machine that is replaced is another machine, with another name in the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from harness.kube.client import Json
from harness.kube.objects import deleting, dig, owner_reference
from harness.kube.resources import SECRET
from harness.machines.keys import new_private_key
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.made import ZONE_LABEL, KubevirtMachines
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE, MACHINE_SET
from harness.operator.controllers.machine_choice import Claimant, zone_of
from harness.operator.controllers.machine_phase import going, lost

KEY, KEY_TYPE = "ssh-privatekey", "kubernetes.io/ssh-auth"


def key_name(cluster: str) -> str:
    """Return the name of the Secret with the SSH key of the machines that are made for a cluster."""
    return f"{cluster}-ssh"


def key_object(deployment: Json) -> Json:
    """Return a Secret with a new SSH key, which goes with the ClusterDeployment."""
    meta = deployment["metadata"]
    made = SECRET.manifest(key_name(meta["name"]), meta["namespace"], labels={LABEL_MANAGED: MANAGED_BY}, type=KEY_TYPE)
    made["metadata"]["ownerReferences"] = [owner_reference(deployment, CLUSTER_DEPLOYMENT)]
    return {**made, "stringData": {KEY: new_private_key().decode()}}


def missing(claimant: Claimant, machines: Iterable[Json]) -> int:
    """Return how many Machines a set lacks, those aside that are to go."""
    return max(0, claimant.replicas - sum(claimant.has(m) and not going(m) for m in machines))


def hopeless(claimant: Claimant, machines: Iterable[Json], held: Collection[str]) -> list[tuple[Json, str]]:
    """Return the made Machines of a set that are to be deleted, each with why: lost, or asked for otherwise since.

    Args:
        held: names of Machines that some cluster has something on.
    """
    template = _template(claimant).one.model_dump(mode="json", by_alias=True, exclude_none=True)
    found = []
    for machine in machines:
        if not claimant.has(machine) or deleting(machine) or not dig(machine, "spec", "kubevirt"):
            continue
        ran = dig(machine, "status", "infrastructure", "instance") or machine["metadata"]["name"] in held
        if lost(machine):
            found.append((machine, "it is lost"))
        elif not ran and _without_zone(machine["spec"]["kubevirt"]) != _without_zone(template):
            found.append((machine, "its set asks for other machines since, and it never ran"))
    return found


def new_machines(machine_set: Json, numbers: Iterable[int], machines: Sequence[Json]) -> list[Json]:
    """Return new Machines of a set, each in the zone that has the fewest of the set.

    Args:
        machine_set: who owns them.  machines: those of the namespace.
    """
    claimant = Claimant.of(machine_set)
    template = _template(claimant)
    zones = [zone_of(m) for m in machines if claimant.has(m) and not going(m)]
    made = []
    for number in numbers:
        zone = min(template.zones, key=zones.count, default="")
        zones.append(zone)
        made.append(_machine(machine_set, claimant, template, number, zone))
    return made


def _machine(machine_set: Json, claimant: Claimant, template: KubevirtMachines, number: int, zone: str) -> Json:
    of_zone = {ZONE_LABEL: zone} if zone else {}
    one = template.one.model_copy(update={"node_selector": {**template.node_selector, **of_zone}})
    name = f"{claimant.cluster}-{claimant.wanted['name']}-{number}"
    spec = {
        "kubevirt": one.model_dump(mode="json", by_alias=True, exclude_none=True),
        "user": template.user,
        "keyRef": {"name": key_name(claimant.cluster), "key": KEY},
        "through": {"virtualMachineInstance": name},
        "claim": claimant.json(),
    }
    labels = {CLUSTER_LABEL: claimant.cluster, LABEL_MANAGED: MANAGED_BY, **of_zone}
    body = MACHINE.manifest(name, machine_set["metadata"]["namespace"], labels=labels, spec=spec)
    body["metadata"]["ownerReferences"] = [owner_reference(machine_set, MACHINE_SET)]
    return body


def _template(claimant: Claimant) -> KubevirtMachines:
    return KubevirtMachines.model_validate(dig(claimant.wanted, "machines", "kubevirt"))


def _without_zone(made: Json) -> Json:
    nodes = {name: value for name, value in (made.get("nodeSelector") or {}).items() if name != ZONE_LABEL}
    return {**made, "nodeSelector": nodes}
