"""Infrastructure of Machines: make those that a set lacks of KubeVirt, watch their instances, set the condition.

All of it goes with the Machine, and an image with the last set that needs it, whether or not an operator runs then.

A number is used once. A machine that is replaced is another machine, with another name in the cluster.

What a Machine was when it first ran is kept in its status: a machine with another disk is another machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from harness.errors import InfraRetriable
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.objects import controller_of, deleting, dig, is_condition, owner_reference, without_condition
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import DATA_VOLUME, NETWORK_POLICY, PVC, SECRET, VM, VMI, Resource
from harness.machines.keys import new_private_key, public_line
from harness.machines.kubevirt.disks import FOR_A_CONSUMER
from harness.machines.kubevirt.launchers import (
    KnownMachine,
    Presence,
    Standing,
    address_of,
    ipv6_address_of,
    launcher_pod,
    presence,
    useless,
)
from harness.machines.kubevirt.manifests import GoldenImage, MachinePlan, Origin, golden, machine
from harness.machines.kubevirt.starting import Halt, Stage, Start, of_disk, of_image, of_start, said
from harness.model import LABEL_MANAGED, MANAGED_BY, PlannedMachine
from harness.operator.api.conditions import INFRASTRUCTURE_READY, new
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER_LABEL, GROUP, MACHINE, MACHINE_SET
from harness.operator.api.sets import KubevirtMachine, KubevirtMachines, MadeMachine, SpreadPolicy
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import Declarations, owner_of
from harness.operator.controllers.machine import steady
from harness.operator.controllers.machine_choice import Claimant
from harness.operator.controllers.machine_phase import going, lost
from harness.operator.controllers.ssh import ProbeTrouble, key_of_secret
from harness.operator.decide.desired import digest_of
from harness.operator.decide.isolation import policy_name, selects
from harness.operator.decide.spread import Spreading, emptiest
from harness.paths import packaged_dir
from harness.spec.project import TEMPLATES

MACHINE_LABEL, SET_LABEL = f"{GROUP}/machine", f"{GROUP}/set"
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


def image_object(machine_object: Json, made: KubevirtMachine, image: GoldenImage) -> Json:
    """Return the DataVolume that imports an image, owned by what asks for it.

    Args:
        machine_object: the Machine, as the API has it.
    """
    body = golden(
        image,
        labels={LABEL_MANAGED: MANAGED_BY},
        storage_class=made.storage_class,
        directory=packaged_dir() / TEMPLATES,
        namespace=machine_object["metadata"]["namespace"],
    )
    body["metadata"]["ownerReferences"] = [image_owner(machine_object)]
    return body


def image_owner(machine_object: Json) -> Json:
    """Return the reference to what an image stays for: a Machine's set, or the Machine where it has none."""
    owner = controller_of(machine_object) or owner_reference(machine_object, MACHINE)
    return {name: owner[name] for name in SHARED}


def scheduling_of(spread: SpreadPolicy, labels: Mapping[str, str]) -> Json:
    """Return what keeps instances with these labels apart: never two in a domain, or no domain with two more."""
    selector = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": spread.topology_key}
    if spread.policy == "Required":
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}}
    return {"topologySpreadConstraints": [{**selector, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]}


def machine_objects(
    machine_object: Json, model: DeclaredMachine, made: MadeMachine, public_key: str, domain: str
) -> list[Json]:
    """Return a Machine's disk, Secret for cloud-init and VirtualMachine, in the order in which they are made."""
    meta = model.metadata
    owner: dict[str, Any] = owner_reference(machine_object, MACHINE)
    claim = model.spec.claim
    apart = {SET_LABEL: f"{claim.cluster}.{claim.set_name}"} if made.spread is not None and claim is not None else {}
    plan = MachinePlan(
        namespace=meta.namespace,
        labels={LABEL_MANAGED: MANAGED_BY, MACHINE_LABEL: meta.name, **apart},
        public_key=public_key,
        dns_domain=domain,
        storage_class=made.storage_class,
        owner=owner,
        run_strategy=RUN_STRATEGY,
        nodes=made.node_selector,
        scheduling=scheduling_of(made.spread, apart) if made.spread is not None else {},
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
    made["metadata"]["ownerReferences"] = [owner_of(deployment)]
    return {**made, "stringData": {KEY: new_private_key().decode()}}


def missing(claimant: Claimant, machines: Iterable[Json]) -> int:
    """Return how many Machines a set lacks, those aside that are to go."""
    return max(0, claimant.replicas - sum(claimant.has(m) and not going(m) for m in machines))


def hopeless(claimant: Claimant, machines: Iterable[Json], held: Collection[str]) -> list[tuple[Json, str]]:
    """Return the made Machines of a set that are to be deleted, each with why: lost, or asked for otherwise since.

    Args:
        held: names of Machines that some cluster has something on.
    """
    spreading = Spreading.of(claimant.wanted)
    template = _one(claimant, spreading).model_dump(mode="json", by_alias=True, exclude_none=True)
    replaceable = []
    for candidate in machines:
        if not claimant.has(candidate) or deleting(candidate) or not dig(candidate, "spec", "kubevirt"):
            continue
        ran = dig(candidate, "status", "infrastructure", "instance") or candidate["metadata"]["name"] in held
        if lost(candidate):
            replaceable.append((candidate, "it is lost"))
        elif not ran and _anywhere(candidate["spec"]["kubevirt"], spreading) != _anywhere(template, spreading):
            replaceable.append((candidate, "its set asks for other machines since, and it never ran"))
    return replaceable


def new_machines(machine_set: Json, numbers: Iterable[int], machines: Sequence[Json]) -> list[Json]:
    """Return new Machines of a set, each in the failure domain that has the fewest of the set.

    Args:
        machine_set: who owns them.  machines: those of the namespace.
    """
    claimant = Claimant.of(machine_set)
    spreading = Spreading.of(claimant.wanted)
    domains = [spreading.domain_of(m) for m in machines if claimant.has(m) and not going(m)]
    made = []
    for number in numbers:
        domain = emptiest(spreading.domains, domains)
        domains.append(domain)
        made.append(_machine(machine_set, claimant, spreading, number, domain))
    return made


def _machine(machine_set: Json, claimant: Claimant, spreading: Spreading, number: int, domain: str) -> Json:
    within, template = {spreading.key: domain} if domain else {}, _template(claimant)
    template_of_domain = _one(claimant, spreading)
    template_of_domain = template_of_domain.model_copy(
        update={"node_selector": {**template_of_domain.node_selector, **within}}
    )
    name = f"{claimant.cluster}-{claimant.wanted['name']}-{number}"
    spec = {
        "kubevirt": template_of_domain.model_dump(mode="json", by_alias=True, exclude_none=True),
        "user": template.user,
        "keyRef": {"name": key_name(claimant.cluster), "key": KEY},
        "through": {"virtualMachineInstance": name},
        "claim": claimant.json(),
    }
    labels = {CLUSTER_LABEL: claimant.cluster, LABEL_MANAGED: MANAGED_BY, **within}
    body = MACHINE.manifest(name, machine_set["metadata"]["namespace"], labels=labels, spec=spec)
    body["metadata"]["ownerReferences"] = [owner_reference(machine_set, MACHINE_SET)]
    return body


def _template(claimant: Claimant) -> KubevirtMachines:
    return KubevirtMachines.model_validate(dig(claimant.wanted, "machines", "kubevirt"))


def _one(claimant: Claimant, spreading: Spreading) -> MadeMachine:
    """Return what each machine of a set is made of; KubeVirt spreads those whose domains the set does not name."""
    apart = None
    if spreading.asked and not spreading.domains:
        apart = SpreadPolicy(topology_key=spreading.key, policy="Required" if spreading.required else "Preferred")
    return _template(claimant).one(apart)


def _anywhere(made: Json, spreading: Spreading) -> Json:
    """Return what a machine is made of, wherever it is to run."""
    nodes = {name: value for name, value in (made.get("nodeSelector") or {}).items() if name != spreading.key}
    return {**{name: value for name, value in made.items() if name != "spread"}, "nodeSelector": nodes}


class MachineMaking:
    """Makes Machines in one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def look(self, machine_object: Json, deployment: Json | None, vm: Json | None, vmi: Json | None) -> Halt | None:
        """Make what is missing of a Machine; return how far it is, None once its instance may run.

        Args:
            machine_object: the Machine.  deployment: that it is made for.  vm, vmi: what is known to be there of it.
        """
        model = DeclaredMachine.model_validate(machine_object)
        made = model.spec.kubevirt
        if made is None:
            return None
        try:
            return (
                self._made(machine_object, model, made, deployment)
                if vm is None
                else self._coming(model, made, vm, vmi)
            )
        except ApiFailure as refused:
            if refused.passing or refused.conflict:
                raise
            return Halt(Stage.QUOTA_EXCEEDED if refused.by_quota else Stage.REFUSED, said(refused))

    def _made(
        self, machine_object: Json, model: DeclaredMachine, made: MadeMachine, deployment: Json | None
    ) -> Halt | None:
        """Make the objects that are missing, each when it can be."""
        namespace, name = model.metadata.namespace, model.metadata.name
        reference = model.spec.key_ref
        key = key_of_secret(self._key(reference.name, namespace, deployment), reference)
        if isinstance(key, ProbeTrouble):
            return Halt(Stage.KEY_MISSING, key.message)
        domain = str(dig(deployment, "spec", "network", "dnsDomain") or DOMAIN)
        disk, secret, vm = machine_objects(machine_object, model, made, public_line(key, reference.name), domain)
        if self._cluster.get(DATA_VOLUME, name, namespace) is None and (
            halt := self._image(machine_object, model, made)
        ):
            return halt
        for kind, body in ((DATA_VOLUME, disk), (SECRET, secret), (VM, vm)):
            if kind is VM and (halt := self._open(name, deployment)):
                return halt
            if halt := self._create(kind, body, model.metadata.uid):
                return halt
        return Halt(Stage.MAKING_DISK, f"disk {name}: new")

    def _open(self, name: str, deployment: Json | None) -> Halt | None:
        """Wait for the policy of a cluster that asks for one: a machine's launcher pod is isolated from its start."""
        if deployment is None or not dig(deployment, "spec", "isolation", "enabled"):
            return None
        meta = deployment["metadata"]
        there = self._cluster.get(NETWORK_POLICY, policy_name(meta["name"]), meta["namespace"])
        if selects(there, name):
            return None
        message = f"NetworkPolicy {policy_name(meta['name'])} does not select it yet; NetworkIsolated says why"
        return Halt(Stage.WAITING_FOR_ISOLATION, message)

    def _key(self, name: str, namespace: str, deployment: Json | None) -> Json | None:
        """Return the Secret of a machine's key, which is made once for all machines that are made for a cluster.

        Raises:
            InfraRetriable: it is left of an earlier cluster of the name, and not deleted yet.
        """
        own = deployment is not None and name == key_name(deployment["metadata"]["name"])
        if deployment is None or not own:
            return self._cluster.get(SECRET, name, namespace)
        secret = self._cluster.get(SECRET, name, namespace) or self._cluster.ensure(SECRET, key_object(deployment))
        if (owner := controller_of(secret)) is not None and owner["uid"] != deployment["metadata"]["uid"]:
            raise InfraRetriable(f"Secret {name} is left of an earlier cluster of the name", hint="it is deleted soon")
        return secret

    def _image(self, machine_object: Json, model: DeclaredMachine, made: KubevirtMachine) -> Halt | None:
        """Have the image that the disk is cloned from; return how far it is, None when it is there."""
        image, namespace = image_of(made, model.spec.user), model.metadata.namespace
        there = self._cluster.get(DATA_VOLUME, image.name, namespace)
        volume = there or self._cluster.ensure(DATA_VOLUME, image_object(machine_object, made, image))
        owners, own = volume["metadata"].get("ownerReferences") or [], image_owner(machine_object)
        if all(owner["uid"] != own["uid"] for owner in owners):
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


ADDRESS_CHANGED, NO_ADDRESS, SILENT = "AddressChanged", "NoAddress", "KubeVirtUnreachable"
QUIET = frozenset(
    {
        *(Stage.IMPORTING_IMAGE, Stage.MAKING_DISK, Stage.WAITING_FOR_ISOLATION, Stage.STARTING),
        *(Standing.STARTING, NO_ADDRESS),
    }
)
REMEDIES = {
    Standing.LOST: "its place in the cluster is given to another machine",
    Standing.STOPPED: "start it: virtctl start, or spec.runStrategy of its VirtualMachine",
}
NOBODYS = "make it again under the same name, or delete the Machine"  # of a lost machine that no cluster has


@dataclass(frozen=True)
class InfrastructureReport:
    """What is written of a Machine.

    status: of the condition.  infrastructure: of the status, None where it stays as it is.
    settled: only a change of an object can change it.
    """

    status: bool | None
    reason: str
    message: str
    infrastructure: Json | None = None
    settled: bool = True

    @property
    def warns(self) -> bool:
        """Tell whether something is in the way."""
        return self.status is False and self.reason not in QUIET

    @staticmethod
    def coming(halt: Halt) -> InfrastructureReport:
        """Return what is said of a machine that is being made."""
        return InfrastructureReport(False, halt.reason, halt.message, settled=False)

    @staticmethod
    def silent(why: str) -> InfrastructureReport:
        """Return what is said while nothing is known."""
        return InfrastructureReport(None, SILENT, f"KubeVirt's API does not answer: {why}")


class InfrastructureLook:
    """Looks at virtual machines."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def report(self, machine: Json, vm: Json | None, vmi: Json | None, *, held: bool) -> InfrastructureReport:
        """Return what is seen of a Machine.

        Args:
            held: it matters that it is the machine that it was.
        """
        before = dig(machine, "status", "infrastructure") or {}
        known = KnownMachine(before.get("instance", ""), before.get("disk", ""))
        if vmi is not None and not held:  # whatever runs there now is as good; what is gone is gone
            known = KnownMachine()
        uid = dig(vmi, "metadata", "uid") or ""
        disk = before.get("disk", "") if uid and uid == before.get("instance") else self._disk(vmi)
        observed = presence(vm, vmi, known, disk)
        if observed.standing is not Standing.RUNNING or vmi is None:
            return _not_running(machine, observed, held=held)
        node = str(dig(vmi, "status", "nodeName") or "")
        address, ipv6 = str(before.get("address", "")), str(before.get("ipv6Address", ""))
        if (uid, node) != (before.get("instance"), before.get("node")) or not address:
            pod = launcher_pod(self._cluster, machine["metadata"]["namespace"], vmi)
            address, ipv6 = address_of(pod), ipv6_address_of(pod)
        now = {"address": address, "instance": uid, "disk": disk, "node": node}
        return self._running(machine, {**now, "ipv6Address": ipv6} if ipv6 else now, held=held)

    def _running(self, machine: Json, now: Json, *, held: bool) -> InfrastructureReport:
        address, name = now["address"], machine["metadata"]["name"]
        if not address or useless(address):
            why = f"has the address {address}, which {useless(address)}" if address else "has no address yet"
            return InfrastructureReport(False, NO_ADDRESS, f"the launcher of machine {name} {why}", settled=False)
        for family in ("address", "ipv6Address"):
            before, after = dig(machine, "status", "infrastructure", family), now.get(family)
            if held and before and before != after:
                remedy = "delete the Machine to have another one in its place, if its cluster cannot live with that"
                has = f"the address {after}" if after else "no address"
                message = f"machine {name} was started again and has {has} instead of {before}; {remedy}"
                return InfrastructureReport(False, ADDRESS_CHANGED, message)
        return InfrastructureReport(True, Standing.RUNNING, f"it runs on node {now['node'] or 'unknown'}", now)

    def _disk(self, vmi: Json | None) -> str:
        """Return the uid of the claim of an instance's first disk that lasts, "" for none."""
        volumes = dig(vmi, "spec", "volumes") or []
        named = (dig(v, "dataVolume", "name") or dig(v, "persistentVolumeClaim", "claimName") for v in volumes)
        claim = next(filter(None, named), None)
        claim_object = self._cluster.get(PVC, claim, dig(vmi, "metadata", "namespace")) if claim else None
        return str(dig(claim_object, "metadata", "uid") or "")


def instance_of(machine: Json) -> str:
    """Return the virtual machine that a Machine is, "" where it is none that the API tells of."""
    through = dig(machine, "spec", "through", "virtualMachineInstance")
    return str(through or (machine["metadata"]["name"] if dig(machine, "spec", "kubevirt") else ""))


def _not_running(machine: Json, observed: Presence, *, held: bool) -> InfrastructureReport:
    remedy = REMEDIES.get(observed.standing) if held or observed.standing is not Standing.LOST else NOBODYS
    message = f"machine {machine['metadata']['name']}: {observed.evidence}"
    return InfrastructureReport(False, observed.standing, f"{message}; {remedy}" if remedy else message)


SILENT_SECONDS = 10.0  # an API server that is replaced is back by then; longer silence is news


class Instances:
    """Local copies of VirtualMachines and VirtualMachineInstances, which are empty until somebody asks."""

    def __init__(self, context: OperatorContext, changed: Callable[[Key], None]) -> None:
        """Have `changed` called with the namespace and name of each that changes."""
        self._informers = {kind: Informer(context.cluster, kind, namespace=context.namespace) for kind in (VM, VMI)}
        self._begun = False
        self._beginning = threading.Lock()
        for informer in self._informers.values():
            informer.subscribe(lambda _, obj: changed(key_of(obj)))
            context.on_stop(informer.stop)

    def ready(self) -> bool:
        """Tell whether both kinds are known; the first call begins to watch them."""
        with self._beginning:
            if not self._begun:
                self._begun = True
                for informer in self._informers.values():
                    informer.start()
        return all(informer.synced.is_set() for informer in self._informers.values())

    def trouble(self) -> str:
        """Return why nothing is known of them, "" where something is or soon will be."""
        troubles = (informer.trouble(SILENT_SECONDS) for informer in self._informers.values())
        return next(filter(None, troubles), "")

    def vm(self, key: Key) -> Json | None:
        """Return a VirtualMachine."""
        return self._informers[VM].get(*key)

    def vmi(self, key: Key) -> Json | None:
        """Return a VirtualMachineInstance."""
        return self._informers[VMI].get(*key)


COMPONENT = "infrastructure"
FIRST_SECONDS = 0.2  # until the first lists of virtual machines
COMING_SECONDS = 2.0  # between looks at a machine that is being made: the API tells nobody of a disk's events
STEADY_SECONDS = 60.0  # between looks at local copies only: an API that does not answer any more is noticed then


class InfrastructureController:
    """Makes Machines, and writes InfrastructureReady of those that are virtual machines."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._machines = context.informers.of(MACHINE)
        self._deployments = Declarations(context.informers)
        self._instances = Instances(context, self._changed)
        self._look = InfrastructureLook(context.cluster)
        self._making = MachineMaking(context.cluster)
        self._of_instance: dict[Key, Key] = {}
        self.controller = Controller("infrastructure", self.reconcile)
        self._machines.subscribe(self._index)
        follow(self._machines, self.controller.queue)

    def _index(self, event: str, machine: Json) -> None:
        namespace, name = key_of(machine)
        instance = instance_of(machine)
        if instance and event != "DELETED":
            self._of_instance[namespace, instance] = (namespace, name)

    def _changed(self, key: Key) -> None:
        """Look at the Machine that is a virtual machine."""
        if key in self._of_instance:
            self.controller.queue.add(self._of_instance[key])

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine."""
        machine = self._machines.get(*key)
        if machine is None:
            return None
        if not instance_of(machine):
            if is_condition(machine, INFRASTRUCTURE_READY, "True") or dig(machine, "status", "infrastructure"):
                kept = without_condition(dig(machine, "status", "conditions") or [], INFRASTRUCTURE_READY)
                self._machines.merge_status(machine, {"conditions": kept, "infrastructure": None})
            return None
        if not self._instances.ready():
            if not (trouble := self._instances.trouble()):
                return FIRST_SECONDS
            self._write(machine, InfrastructureReport.silent(trouble))
            return SILENT_SECONDS
        if trouble := self._instances.trouble():
            self._write(machine, InfrastructureReport.silent(trouble))
            return SILENT_SECONDS
        report = self._report(key, machine)
        self._write(machine, report)
        return STEADY_SECONDS if report.settled else COMING_SECONDS

    def _report(self, key: Key, machine: Json) -> InfrastructureReport:
        where = (key[0], instance_of(machine))
        vm, vmi = self._instances.vm(where), self._instances.vmi(where)
        if dig(machine, "spec", "kubevirt") and not dig(machine, "status", "infrastructure", "instance"):
            halt = None if deleting(machine) else self._making.look(machine, self._deployment(machine), vm, vmi)
            if halt is not None:
                return InfrastructureReport.coming(halt)
        held = bool(dig(machine, "spec", "kubevirt") or dig(machine, "spec", "claim"))
        report = self._look.report(machine, vm, vmi, held=held)
        if report.reason == Standing.LOST:  # what a local copy does not have may only be late
            now = [self._cluster.get(kind, where[1], where[0]) for kind in (VM, VMI)]
            report = self._look.report(machine, now[0], now[1], held=held)
        return report

    def _deployment(self, machine: Json) -> Json | None:
        """Return the ClusterDeployment that a Machine is claimed by."""
        cluster = dig(machine, "spec", "claim", "cluster") or ""
        deployment = self._deployments.get(machine["metadata"]["namespace"], cluster)
        return deployment if dig(deployment, "metadata", "uid") == dig(machine, "spec", "claim", "uid") else None

    def _write(self, machine: Json, report: InfrastructureReport) -> None:
        """Write what is seen, where that is news; events say what is in the way."""
        generation = machine["metadata"].get("generation")
        condition = new(
            INFRASTRUCTURE_READY, report.status, report.reason, report.message, datetime.now(UTC), generation
        )
        status: Json = {"conditions": steady(dig(machine, "status", "conditions") or [], [condition])}
        if report.infrastructure is not None:
            status["infrastructure"] = report.infrastructure
        written = self._machines.merge_status(machine, status)
        if written is not machine and report.warns:
            self._events.warning(written, report.reason, report.message, component=COMPONENT)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(InfrastructureController(context).controller)
