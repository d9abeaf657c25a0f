"""Infrastructure of Machines: make those that are to be made, watch VirtualMachineInstances, set the condition.

What a Machine was when it first ran is kept in its status: a machine with another disk is another machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.objects import deleting, dig, is_condition, without_condition
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import PVC, VM, VMI
from harness.machines.kubevirt.launchers import KnownMachine, Presence, Standing, launcher_address, presence, useless
from harness.machines.kubevirt.starting import Halt, Stage
from harness.operator.api.conditions import INFRASTRUCTURE_READY, new
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.kubevirt_machines import MachineMaking
from harness.operator.controllers.machine_status import steady

ADDRESS_CHANGED, NO_ADDRESS, SILENT = "AddressChanged", "NoAddress", "KubeVirtUnreachable"
QUIET = frozenset({Stage.IMPORTING_IMAGE, Stage.MAKING_DISK, Stage.STARTING, Standing.STARTING, NO_ADDRESS})
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
        seen = presence(vm, vmi, known, disk)
        if seen.standing is not Standing.RUNNING or vmi is None:
            return _not_running(machine, seen, held=held)
        node = str(dig(vmi, "status", "nodeName") or "")
        address = str(before.get("address", ""))
        if (uid, node) != (before.get("instance"), before.get("node")) or not address:
            address = launcher_address(self._cluster, machine["metadata"]["namespace"], vmi)
        return self._running(machine, {"address": address, "instance": uid, "disk": disk, "node": node}, held=held)

    def _running(self, machine: Json, now: Json, *, held: bool) -> InfrastructureReport:
        address, name = now["address"], machine["metadata"]["name"]
        if not address or useless(address):
            why = f"has the address {address}, which {useless(address)}" if address else "has no address yet"
            return InfrastructureReport(False, NO_ADDRESS, f"the launcher of machine {name} {why}", settled=False)
        before = str(dig(machine, "status", "infrastructure", "address") or address)
        if held and before != address:
            remedy = "delete the Machine to have another one in its place, if its cluster cannot live with that"
            message = f"machine {name} was started again and has the address {address} instead of {before}; {remedy}"
            return InfrastructureReport(False, ADDRESS_CHANGED, message)
        return InfrastructureReport(True, Standing.RUNNING, f"it runs on node {now['node'] or 'unknown'}", now)

    def _disk(self, vmi: Json | None) -> str:
        """Return the uid of the claim of an instance's first disk that lasts, "" for none."""
        volumes = dig(vmi, "spec", "volumes") or []
        named = (dig(v, "dataVolume", "name") or dig(v, "persistentVolumeClaim", "claimName") for v in volumes)
        claim = next(filter(None, named), None)
        found = self._cluster.get(PVC, claim, dig(vmi, "metadata", "namespace")) if claim else None
        return str(dig(found, "metadata", "uid") or "")


def instance_of(machine: Json) -> str:
    """Return the virtual machine that a Machine is, "" where it is none that the API tells of."""
    through = dig(machine, "spec", "through", "virtualMachineInstance")
    return str(through or (machine["metadata"]["name"] if dig(machine, "spec", "kubevirt") else ""))


def _not_running(machine: Json, seen: Presence, *, held: bool) -> InfrastructureReport:
    remedy = REMEDIES.get(seen.standing) if held or seen.standing is not Standing.LOST else NOBODYS
    message = f"machine {machine['metadata']['name']}: {seen.evidence}"
    return InfrastructureReport(False, seen.standing, f"{message}; {remedy}" if remedy else message)


SILENT_SECONDS = 10.0  # an API server that is replaced is back by then; longer silence is news


class Instances:
    """Local copies of VirtualMachines and VirtualMachineInstances, which are empty until somebody asks."""

    def __init__(self, context: OperatorContext, changed: Callable[[Key], None]) -> None:
        """Have `changed` called with the namespace and name of each that changes."""
        self._informers = {kind: Informer(context.cluster, kind, namespace=context.namespace) for kind in (VM, VMI)}
        self._begun = False
        self._beginning = threading.Lock()
        for informer in self._informers.values():
            informer.subscribe(lambda _, found: changed(key_of(found)))
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
        said = (informer.trouble(SILENT_SECONDS) for informer in self._informers.values())
        return next(filter(None, said), "")

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
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
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
            if not (said := self._instances.trouble()):
                return FIRST_SECONDS
            self._write(machine, InfrastructureReport.silent(said))
            return SILENT_SECONDS
        if said := self._instances.trouble():
            self._write(machine, InfrastructureReport.silent(said))
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
        found = self._deployments.get(machine["metadata"]["namespace"], cluster)
        return found if dig(found, "metadata", "uid") == dig(machine, "spec", "claim", "uid") else None

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
