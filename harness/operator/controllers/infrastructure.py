"""Machines as the infrastructure has them: makes those that are to be made, and says of all how they are there.

What a Machine was when it first ran is kept in its status: a machine with another disk is another machine.
"""

from __future__ import annotations

from datetime import UTC, datetime

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, is_condition, without_condition
from harness.kube.owners import follow
from harness.kube.reconcile import Controller
from harness.kube.resources import VM, VMI
from harness.machines.kubevirt.presence import Standing
from harness.operator.api.conditions import INFRASTRUCTURE_READY, new
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.infrastructure_seen import InfrastructureLook, InfrastructureReport, instance_of
from harness.operator.controllers.instances import Instances
from harness.operator.controllers.machine_conditions import steady
from harness.operator.controllers.machine_making import MachineMaking

COMPONENT = "infrastructure"
FIRST_SECONDS = 0.2  # until the first lists of virtual machines
COMING_SECONDS = 2.0  # between looks at a machine that is being made: the API tells nobody of a disk's events
SILENT_SECONDS = 10.0  # between looks while KubeVirt's API does not answer
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
