"""Logs in to machines of clusters from time to time: do they answer, are files as applied, when do certificates expire.

Not while an operation runs, which may change all of it. After one that wrote settings, a look takes down how they are.
What was seen before an operation ended is old: nothing is decided by it (`decide.observed`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import condition, deleting, dig
from harness.kube.owners import follow
from harness.kube.reconcile import Controller
from harness.machines.inspection_program import Inspected, inspected, inspection_command
from harness.operator.api.conditions import SETTINGS_AS_APPLIED
from harness.operator.api.resources import CLUSTER, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import follow_clusters
from harness.operator.controllers.drift import last_end
from harness.operator.controllers.findings import findings, without_findings
from harness.operator.controllers.inspection_times import InspectionTimes
from harness.operator.controllers.known_keys import KEY_SECONDS
from harness.operator.controllers.machine_phase import use_of
from harness.operator.controllers.machine_prober import ssh_login
from harness.operator.controllers.probe import ProbeTrouble
from harness.operator.controllers.status_writes import write_status

COMPONENT = "inspection-controller"
WORKERS = 6  # as many logins as for machines that nobody uses; each waits half a minute at most
Look = Callable[[Json], Inspected | ProbeTrouble]


class MachineInspection:
    """Looks into machines of clusters."""

    def __init__(self, context: OperatorContext, look: Look) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._look = look
        self._times = InspectionTimes()
        self.controller = Controller("inspection", self.reconcile, workers=WORKERS)
        follow(self._machines, self.controller.queue)
        follow_clusters(self._clusters, self._machines, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look into one Machine, if that is due; return the seconds until the next look."""
        machine = self._machines.get(*key)
        if machine is None or deleting(machine):
            self._times.forget(key)
            return None
        cluster = self._of(machine)
        if cluster is None:
            self._times.forget(key)
            self._machines.merge_status(machine, without_findings(machine))
            return None
        if dig(cluster, "status", "operation"):
            return None  # its end is a change of the Cluster
        number = last_end(cluster)
        known = dig(machine, "status", "settings", "seen") == number
        if left := self._times.left(key, number, known=known):
            return left
        found = self._look(machine)
        failed = self._times.note(key, number, answered=not isinstance(found, ProbeTrouble))
        after = self._of(self._machines.get(*key) or machine)
        if after is None or dig(after, "status", "operation") or last_end(after) != number:
            return 0.0  # an operation began meanwhile
        moment = datetime.now(UTC)
        written = write_status(
            self._cluster, self._machines, key, lambda now: findings(now, found, failed, after, moment)
        )
        if written is not None:
            self._tell(machine, written)
        return self._times.left(key, number, known=True)

    def _of(self, machine: Json) -> Json | None:
        """Return the Cluster that a Machine is a part of, None if it is part of none."""
        name = dig(machine, "spec", "claim", "cluster")
        cluster = self._clusters.get(machine["metadata"]["namespace"], name) if name else None
        part = machine["metadata"]["name"] in (dig(cluster, "status", "applied", "machines") or ())
        return cluster if part and use_of(machine, cluster).holds else None

    def _tell(self, before: Json, now: Json) -> None:
        """Say that files were changed, once for each change."""
        old, found = condition(before, SETTINGS_AS_APPLIED), condition(now, SETTINGS_AS_APPLIED)
        if found is not None and found["status"] == "False" and found != old:
            self._events.warning(now, found["reason"], found["message"], component=COMPONENT)


def ssh_inspection(context: OperatorContext) -> Look:
    """Return what looks into a machine by SSH."""
    return ssh_login(context, inspection_command(), inspected, remember=KEY_SECONDS)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(MachineInspection(context, ssh_inspection(context)).controller)
