"""MachineSets: claim idle Machines or have them made until there are as many as wanted, and report the status."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import cache

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.objects import deleting, dig, without_condition
from harness.kube.reconcile import Controller
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.conditions import SPREAD, new, with_conditions
from harness.operator.api.resources import CLUSTER, ETCD_RESTORE, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import Declarations
from harness.operator.controllers.infrastructure import hopeless, missing, new_machines
from harness.operator.controllers.machine_choice import (
    CLAIMED,
    CLUSTER_LOST,
    Claimant,
    WaitingSet,
    claimable,
    cluster_of,
    goes_first,
    may_claim,
    oldest_first,
    shortage,
    waiting_sets,
    where_lacks,
)
from harness.operator.controllers.machine_phase import claimed_by, etcd_is_gone, going, held, is_gone
from harness.operator.controllers.restores import ENDED
from harness.operator.decide.restores import authority_lost
from harness.operator.decide.spread import Spreading, claimed_in_order, spread_of

COMPONENT = "machineset-controller"


class MachineMaker:
    """Brings the made Machines of a set to their number."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._sets: Informer = context.informers.of(MACHINE_SET)
        self._machines: Informer = context.informers.of(MACHINE)

    def fill(self, machine_set: Json, held: Collection[str]) -> bool:
        """Delete what cannot be used any more, or make what is missing; tell whether anything was to do.

        The numbers of new Machines are written down first: none is used twice, whenever a manager dies.

        Args:
            held: names of Machines that some cluster has something on.
        """
        namespace, _ = key_of(machine_set)
        claimant = Claimant.of(machine_set)
        machines = claimed_by(self._machines, (namespace, claimant.cluster))
        if useless := hopeless(claimant, machines, held):
            for machine, why in useless:
                self._events.warning(machine, "Replaced", f"{why}: another one takes its place", component=COMPONENT)
                self._cluster.delete(MACHINE, machine["metadata"]["name"], namespace)
            return True
        lacking = missing(claimant, machines)
        if not lacking:
            return False
        last = int(dig(machine_set, "status", "made") or 0)
        self._sets.merge_status(machine_set, {"made": last + lacking})
        for body in new_machines(machine_set, range(last + 1, last + 1 + lacking), machines):
            if self._cluster.create_if_absent(MACHINE, body):
                name = body["metadata"]["name"]
                made = self._cluster.get(MACHINE, name, namespace)
                if made is not None:
                    self._machines.observe(made)
                    text = f"made for set {claimant.wanted['name']} of cluster {claimant.cluster}"
                    self._events.normal(made, "Made", text, component=COMPONENT)
        return True


DEPLOYED = frozenset({"Deployed", "Ready", "NotReady"})
PROVISIONED = DEPLOYED | {"Claimed", "Provisioned", "Deploying"}


class MachineSetController:
    """Claims Machines for each MachineSet, and writes its status."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._sets = context.informers.of(MACHINE_SET)
        self._machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._deployments = Declarations(context.informers)
        self._restores = context.informers.of(ETCD_RESTORE)
        self._maker = MachineMaker(context)
        self.controller = Controller("machineset", self.reconcile, workers=1)
        self._sets.subscribe(self._set_changed)
        self._machines.subscribe(self._machine_changed)
        for informer in (self._clusters, self._deployments):
            informer.subscribe(self._cluster_changed)
        self._restores.subscribe(
            lambda _, restore: self._look_at_cluster((key_of(restore)[0], restore["spec"]["cluster"]))
        )

    def _set_changed(self, _: str, machine_set: Json) -> None:
        """Look at a set, and at those that may have waited for its cluster to have all machines."""
        self.controller.queue.add(key_of(machine_set))
        self._look_at_waiting(machine_set["metadata"]["namespace"])

    def _look_at_waiting(self, namespace: str) -> None:
        for machine_set in self._sets.by(where_lacks, namespace):
            self.controller.queue.add(key_of(machine_set))

    def _machine_changed(self, _: str, machine: Json) -> None:
        """Look at the set that has claimed a Machine, and at those that wait for one such as this."""
        namespace, cluster = machine["metadata"]["namespace"], dig(machine, "spec", "claim", "cluster")
        for machine_set in self._sets.by(cluster_of, (namespace, cluster)):
            if Claimant.of(machine_set).has(machine):
                self.controller.queue.add(key_of(machine_set))
        for machine_set in self._sets.by(where_lacks, namespace):
            if Claimant.of(machine_set).chooses(machine):
                self.controller.queue.add(key_of(machine_set))

    def _cluster_changed(self, _: str, cluster: Json) -> None:
        self._look_at_cluster(key_of(cluster))
        self._look_at_waiting(key_of(cluster)[0])

    def _look_at_cluster(self, cluster: Key) -> None:
        for machine_set in self._sets.by(cluster_of, cluster):
            self.controller.queue.add(key_of(machine_set))

    def reconcile(self, key: Key) -> float | None:
        """Look at one MachineSet."""
        machine_set = self._sets.get(*key)
        if machine_set is None or deleting(machine_set):
            return None
        claimant = Claimant.of(machine_set)
        deployment = self._deployments.get(key[0], claimant.cluster)
        cluster, of_cluster = self._clusters.get(key[0], claimant.cluster), (key[0], claimant.cluster)
        gone = beyond_help(cluster, claimed_by(self._machines, of_cluster), self._restores.list(key[0]))
        if deployment is not None and may_claim(claimant, deployment) and not gone:
            if not claimant.makes:
                self._claim(key[0], claimant, deployment)
            elif self._maker.fill(machine_set, self._used(key[0])):
                return 0.0
        own = [m for m in claimed_by(self._machines, of_cluster) if claimant.has(m)]
        all_count = missing(claimant, own) or Spreading.of(claimant.wanted).asked
        machines = oldest_first(self._machines.list(key[0])) if all_count else own
        left = self._left_to(deployment) if deployment is not None else None
        status = status_of(machine_set, machines, cluster, datetime.now(UTC), left)
        if gone:
            generation = machine_set["metadata"]["generation"]
            wait = new(CLAIMED, False, CLUSTER_LOST, gone, datetime.now(UTC), generation)
            status["conditions"] = with_conditions(dig(machine_set, "status", "conditions") or [], wait)
        self._sets.merge_status(machine_set, status)
        return None

    def _left_to(self, deployment: Json) -> Callable[[Json], str]:
        """Return what tells the older cluster that waits for a Machine, "" where there is none.

        It looks at all sets and Machines once, and only if it is asked.
        """
        namespace = deployment["metadata"]["namespace"]

        @cache
        def waiting() -> tuple[WaitingSet, ...]:
            deployments, machines = self._deployments.list(namespace), self._machines.list(namespace)
            return waiting_sets(self._sets.list(namespace), deployments, machines)

        return lambda machine: goes_first(machine, deployment, waiting())

    def _claim(self, namespace: str, claimant: Claimant, deployment: Json) -> None:
        """Claim Machines over domains, oldest first; one that somebody changed is read anew, and the next is taken."""
        own = claimed_by(self._machines, (namespace, claimant.cluster))
        lacking = missing(claimant, own)
        if lacking <= 0:
            return
        used, here = self._used(namespace), self._machines.list(namespace)
        cluster = self._clusters.get(namespace, claimant.cluster)
        adopting = bool(dig(deployment, "spec", "adopt")) and not dig(cluster, "status", "applied")
        free = [m for m in here if claimant.chooses(m) and claimable(m, used, adopting=adopting)]
        left_to = self._left_to(deployment)
        mine, spreading = [m for m in own if claimant.has(m) and not going(m)], Spreading.of(claimant.wanted)
        for machine in claimed_in_order(spreading, oldest_first(free), mine):
            if lacking <= 0:
                return
            if not left_to(machine):
                lacking -= self._claimed(machine, claimant)

    def _used(self, namespace: str) -> frozenset[str]:
        """Return the names of the Machines that some cluster has something on."""
        return frozenset().union(*map(held, self._clusters.list(namespace)))

    def _claimed(self, machine: Json, claimant: Claimant) -> bool:
        """Claim a Machine as it was seen; return whether it is the set's now."""
        try:
            claimed = self._machines.merge(machine, {"spec": {"claim": claimant.json()}})
        except ApiFailure as failure:
            if not failure.conflict and not failure.not_found:
                raise
            namespace, name = key_of(machine)
            now = self._cluster.get(MACHINE, name, namespace)
            if now is not None:
                self._machines.observe(now)
            return claimant.has(now or {})
        text = f"claimed by set {claimant.wanted['name']} of cluster {claimant.cluster}"
        self._events.normal(claimed, "Claimed", text, component=COMPONENT)
        return True


NOT_ASKED = (
    "all control planes are lost, and others are claimed or made once an EtcdRestore asks for that: make one, as the "
    "condition Progressing of the ClusterDeployment says"
)


def beyond_help(cluster: Json | None, machines: Sequence[Json], restores: Sequence[Json]) -> str:
    """Return why a cluster that has lost all control planes gets no other machines, "" where it does or has some.

    A cluster that nobody restores leaves its pool to others.

    Args:
        machines: that it has claimed.  restores: the EtcdRestores of its namespace.
    """
    if cluster is None or not is_gone(cluster, machines):
        return ""
    name, known = key_of(cluster)[1], DeclaredCluster.model_validate(cluster)
    open_ones = (
        restore for restore in restores if not deleting(restore) and dig(restore, "status", "phase") not in ENDED
    )
    asked = any(restore["spec"]["cluster"] == name for restore in open_ones)
    return authority_lost(known.status.authority) or (
        NOT_ASKED if etcd_is_gone(cluster, machines) and not asked else ""
    )


def status_of(
    machine_set: Json,
    machines: Sequence[Json],
    cluster: Json | None,
    moment: datetime,
    left_to: Callable[[Json], str] | None = None,
) -> Json:
    """Return a MachineSet's status.

    Args:
        machines: those of the namespace.
        cluster: the Cluster, None where there is none yet.
        left_to: returns the older cluster that waits for a Machine, "" where there is none.
    """
    claimant, generation = Claimant.of(machine_set), machine_set["metadata"].get("generation")
    count, own = claimant.replicas, [m for m in machines if claimant.has(m) and not going(m)]
    phases = [dig(m, "status", "phase") for m in own]
    if len(own) < count:
        message = shortage(count - len(own), claimant, machines, left_to)
        condition = new(CLAIMED, False, "TooFewMachines", message, moment, generation)
    else:
        condition = new(CLAIMED, True, "Claimed", f"{len(own)} of {count} claimed", moment, generation)
    conditions = with_conditions(dig(machine_set, "status", "conditions") or [], condition)
    others = [m for m in machines if claimant.chooses(m) and (claimable(m) or claimant.has(m))]
    if (spread_answer := spread_of(claimant.wanted, own, others)) is not None:
        conditions = with_conditions(conditions, new(SPREAD, *spread_answer, moment, generation))
    else:
        conditions = without_condition(conditions, SPREAD)
    return {
        "observedGeneration": generation,
        "wanted": count,
        "claimed": len(own),
        "provisioned": sum(phase in PROVISIONED for phase in phases),
        "deployed": sum(phase in DEPLOYED for phase in phases),
        "ready": phases.count("Ready"),
        "executions": executions(cluster),
        "conditions": conditions,
    }


def executions(cluster: Json | None) -> str | None:
    """Return the Job that works on a cluster's machines, or what became of the last one."""
    running = dig(cluster, "status", "operation")
    if running:
        return str(running.get("job") or running["operation"])
    last = next(iter(dig(cluster, "status", "history") or ()), None)
    return f"{last['operation']} {last['sequence']}: {last['outcome']}" if last else None


def start(context: OperatorContext) -> None:
    """Hand the controller of MachineSets to the manager."""
    context.run(MachineSetController(context).controller)
