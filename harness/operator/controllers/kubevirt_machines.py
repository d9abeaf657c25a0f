"""KubeVirt Machines that the operator makes: how many a set lacks, their objects, and how far each one is.

All of it goes with the Machine, and an image with the last set that needs it, whether or not an operator runs then.

A number is used once. A machine that is replaced is another machine, with another name in the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.errors import InfraRetriable
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import controller_of, deleting, dig, owner_reference
from harness.kube.resources import DATA_VOLUME, SECRET, VM, Resource
from harness.machines.keys import new_private_key, public_line
from harness.machines.kubevirt.disks import FOR_A_CONSUMER
from harness.machines.kubevirt.manifests import GoldenImage, MachinePlan, Origin, golden, machine
from harness.machines.kubevirt.starting import Halt, Stage, Start, of_disk, of_image, of_start, said
from harness.model import LABEL_MANAGED, MANAGED_BY, PlannedMachine
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.made import ZONE_LABEL, KubevirtMachine, KubevirtMachines
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, CLUSTER_LABEL, GROUP, MACHINE, MACHINE_SET
from harness.operator.controllers.machine_choice import Claimant, zone_of
from harness.operator.controllers.machine_phase import going, lost
from harness.operator.controllers.ssh import ProbeTrouble, key_of_secret
from harness.operator.decide.desired import digest_of
from harness.paths import packaged_dir
from harness.spec.project import TEMPLATES

MACHINE_LABEL = f"{GROUP}/machine"
RUN_STRATEGY = "Always"  # a machine of a cluster that stays comes back with its disk
DOMAIN = "cluster.local"
SHARED = ("apiVersion", "kind", "name", "uid")


def image_of(made: KubevirtMachine, user: str) -> GoldenImage:
    """Return the image that disks are cloned from; whoever asks for the same gets the same name."""
    image, source = made.image, made.model_dump(include={"image", "disk", "storage_class"})
    return GoldenImage(
        name=f"vmatrix-image-{digest_of(source)}",
        url=image.url,
        checksum=image.checksum,
        size=f"{made.disk_gib}Gi",
        user=user,
        credentials=image.credentials or "",
        certificates=image.certificates or "",
    )


def image_object(found: Json, made: KubevirtMachine, image: GoldenImage) -> Json:
    """Return the DataVolume that imports an image, owned by what asks for it.

    Args:
        found: the Machine, as the API has it.
    """
    body = golden(
        image,
        labels={LABEL_MANAGED: MANAGED_BY},
        storage_class=made.storage_class,
        directory=packaged_dir() / TEMPLATES,
        namespace=found["metadata"]["namespace"],
    )
    body["metadata"]["ownerReferences"] = [image_owner(found)]
    return body


def image_owner(found: Json) -> Json:
    """Return the reference to what an image stays for: a Machine's set, or the Machine where it has none."""
    owner = controller_of(found) or owner_reference(found, MACHINE)
    return {name: owner[name] for name in SHARED}


def machine_objects(
    found: Json, model: DeclaredMachine, made: KubevirtMachine, public_key: str, domain: str
) -> list[Json]:
    """Return a Machine's disk, Secret for cloud-init and VirtualMachine, in the order in which they are made."""
    meta = model.metadata
    owner: dict[str, Any] = owner_reference(found, MACHINE)
    plan = MachinePlan(
        namespace=meta.namespace,
        labels={LABEL_MANAGED: MANAGED_BY, MACHINE_LABEL: meta.name},
        public_key=public_key,
        dns_domain=domain,
        storage_class=made.storage_class,
        owner=owner,
        run_strategy=RUN_STRATEGY,
        nodes=made.node_selector,
    )
    image = image_of(made, model.spec.user)
    planned = PlannedMachine(meta.name, (), made.cpus, made.memory_mib, made.disk_gib, image.name)
    origin = Origin("claim", meta.namespace, image.name)
    objects = machine(plan, planned, image, directory=packaged_dir() / TEMPLATES, origin=origin)
    objects[1]["metadata"]["ownerReferences"] = [owner]
    return objects


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
    for candidate in machines:
        if not claimant.has(candidate) or deleting(candidate) or not dig(candidate, "spec", "kubevirt"):
            continue
        ran = dig(candidate, "status", "infrastructure", "instance") or candidate["metadata"]["name"] in held
        if lost(candidate):
            found.append((candidate, "it is lost"))
        elif not ran and _without_zone(candidate["spec"]["kubevirt"]) != _without_zone(template):
            found.append((candidate, "its set asks for other machines since, and it never ran"))
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


class MachineMaking:
    """Makes Machines in one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def look(self, found: Json, deployment: Json | None, vm: Json | None, vmi: Json | None) -> Halt | None:
        """Make what is missing of a Machine; return how far it is, None once its instance may run.

        Args:
            found: the Machine.  deployment: that it is made for.  vm, vmi: what is known to be there of it.
        """
        model = DeclaredMachine.model_validate(found)
        made = model.spec.kubevirt
        if made is None:
            return None
        try:
            return self._made(found, model, made, deployment) if vm is None else self._coming(model, made, vm, vmi)
        except ApiFailure as refused:
            if refused.passing or refused.conflict:
                raise
            return Halt(Stage.QUOTA_EXCEEDED if refused.by_quota else Stage.REFUSED, said(refused))

    def _made(self, found: Json, model: DeclaredMachine, made: KubevirtMachine, deployment: Json | None) -> Halt | None:
        """Make the objects that are missing, each when it can be."""
        namespace, name = model.metadata.namespace, model.metadata.name
        reference = model.spec.key_ref
        key = key_of_secret(self._key(reference.name, namespace, deployment), reference)
        if isinstance(key, ProbeTrouble):
            return Halt(Stage.KEY_MISSING, key.message)
        domain = str(dig(deployment, "spec", "network", "dnsDomain") or DOMAIN)
        disk, secret, vm = machine_objects(found, model, made, public_line(key, reference.name), domain)
        if self._cluster.get(DATA_VOLUME, name, namespace) is None and (halt := self._image(found, model, made)):
            return halt
        for kind, body in ((DATA_VOLUME, disk), (SECRET, secret), (VM, vm)):
            if halt := self._create(kind, body, model.metadata.uid):
                return halt
        return Halt(Stage.MAKING_DISK, f"disk {name}: new")

    def _key(self, name: str, namespace: str, deployment: Json | None) -> Json | None:
        """Return the Secret of a machine's key, which is made once for all machines that are made for a cluster.

        Raises:
            InfraRetriable: it is left of an earlier cluster of the name, and not deleted yet.
        """
        own = deployment is not None and name == key_name(deployment["metadata"]["name"])
        if deployment is None or not own:
            return self._cluster.get(SECRET, name, namespace)
        found = self._cluster.get(SECRET, name, namespace) or self._cluster.ensure(SECRET, key_object(deployment))
        if (owner := controller_of(found)) is not None and owner["uid"] != deployment["metadata"]["uid"]:
            raise InfraRetriable(f"Secret {name} is left of an earlier cluster of the name", hint="it is deleted soon")
        return found

    def _image(self, found: Json, model: DeclaredMachine, made: KubevirtMachine) -> Halt | None:
        """Have the image that the disk is cloned from; return how far it is, None when it is there."""
        image, namespace = image_of(made, model.spec.user), model.metadata.namespace
        there = self._cluster.get(DATA_VOLUME, image.name, namespace)
        volume = there or self._cluster.ensure(DATA_VOLUME, image_object(found, made, image))
        owners, own = volume["metadata"].get("ownerReferences") or [], image_owner(found)
        if all(one["uid"] != own["uid"] for one in owners):
            meta = {"ownerReferences": [*owners, own], "resourceVersion": volume["metadata"]["resourceVersion"]}
            volume = self._cluster.merge(DATA_VOLUME, image.name, {"metadata": meta}, namespace)
        halt = of_image(self._cluster, volume, datetime.now(UTC))
        if halt is not None and halt.reason is Stage.IMAGE_IMPORT_FAILED:
            again = f"then: kubectl delete -n {namespace} datavolume {image.name}"
            return Halt(halt.reason, f"{halt.message}; {again}")
        return halt

    def _create(self, kind: Resource, body: Json, owner: str) -> Halt | None:
        """Create an object; return what is wrong with one of its name that is there and not this Machine's."""
        if self._cluster.create_if_absent(kind, body):
            return None
        meta = body["metadata"]
        there = self._cluster.get(kind, meta["name"], meta["namespace"])
        if there is None or (controller_of(there) or {}).get("uid") == owner:
            return None
        what = f"{kind.kind} {meta['name']} is there, and not of this Machine"
        return Halt(Stage.NAME_TAKEN, f"{what}; delete it, or delete the Machine: its set makes one of another name")

    def _coming(self, model: DeclaredMachine, made: KubevirtMachine, vm: Json, vmi: Json | None) -> Halt | None:
        """Return how far a Machine is that has all of its objects, None once its instance runs."""
        if dig(vmi, "status", "phase") == "Running":
            return None
        namespace, name = model.metadata.namespace, model.metadata.name
        if (controller_of(vm) or {}).get("uid") != model.metadata.uid:
            return Halt(
                Stage.NAME_TAKEN, f"VirtualMachine {name} is there, and not of this Machine; delete one of both"
            )
        volume = self._cluster.get(DATA_VOLUME, name, namespace)
        if volume is not None and dig(volume, "status", "phase") not in FOR_A_CONSUMER:
            halt = of_disk(self._cluster, volume, datetime.now(UTC))
            if halt is not None:
                return halt
        return of_start(Start(self._cluster, namespace, name, made.memory_mib, vm.get("status") or {}, vmi))
