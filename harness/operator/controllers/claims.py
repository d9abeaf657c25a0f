"""Claims that nobody needs any more are given up: of clusters and sets that are gone, and beyond what a set wants.

A Machine that its cluster has something on is kept: an operation has to take it out first. What the local copies say
is asked of the API again before a claim is given up. While a cluster may still begin an operation on the Machine, that
takes two steps: a mark on the Machine, which keeps operations from it, then a look whether one had begun before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig
from harness.kube.reconcile import Controller, follow
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_LABEL, LEAVING, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import owned_by, still_run
from harness.operator.controllers.declarations import Declarations, declared_now
from harness.operator.controllers.machine_choice import Claimant, given_back, waiting_sets, where_lacks
from harness.operator.controllers.machine_phase import (
    claimed_by,
    follow_clusters,
    going,
    held,
    made,
    use_of,
    without_claim,
)
from harness.operator.decide.desired import scale_in_order
from harness.operator.decide.spread import Spreading

COMPONENT = "claims-controller"
NOT_YOURS = "lower the replicas of its set, or have it replaced, instead of removing its claim"
TOGETHER_SECONDS = 0.5  # pacing: changes of a namespace's sets and machines are looked at together, once
ALL = ""  # in place of a Machine's name: which of a namespace's Machines are to be given back
AGAIN_SECONDS = 2.0  # while an executor of a deleted cluster ends: its pod has half a minute for that


class ClaimsController:
    """Gives up claims of Machines."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._machines = context.informers.of(MACHINE)
        self._deployments = Declarations(context.informers)
        self._clusters = context.informers.of(CLUSTER)
        self._sets = context.informers.of(MACHINE_SET)
        self._given: dict[str, Mapping[str, str]] = {}
        self.controller = Controller("claims", self.reconcile, workers=1)
        follow(self._machines, self.controller.queue)
        for informer in (self._clusters, self._deployments):
            follow_clusters(informer, self._machines, self.controller.queue)
        for informer in (self._sets, self._deployments, self._machines):
            informer.subscribe(lambda _, obj: self._look_at_waiting(obj["metadata"]["namespace"]))

    def _look_at_waiting(self, namespace: str) -> None:
        """Look at the Machines of clusters that lack some, where there are several: one may have to give some back."""
        self.controller.queue.add((namespace, ALL), delay=TOGETHER_SECONDS)

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine; change one thing. Or find those of a namespace that are to be given back."""
        if key[1] == ALL:
            names = self._given[key[0]] = self._given_back(key[0])
            for machine_name in names:
                self.controller.queue.add((key[0], machine_name))
            return None
        machine = self._machines.get(*key)
        name = dig(machine, "spec", "claim", "cluster")
        if machine is None:
            return None
        if not name:
            self._put_back(key)
            return None
        known = self._deployments.get(key[0], name), self._clusters.get(key[0], name)
        if not self._useless(machine, *known) and not leaving(machine):
            return None
        now = declared_now(self._cluster, (key[0], name)), self._cluster.get(CLUSTER, name, key[0])
        why = self._useless(machine, *now)
        if not why and not leaving(machine):
            return None
        if now[0] is None and still_run(self._cluster, key[0], f"{CLUSTER_LABEL}={name}"):
            return AGAIN_SECONDS  # an executor of a cluster that is gone
        if now[0] is not None and bool(why) != leaving(machine):
            self._machines.merge(machine, {"metadata": {"annotations": {LEAVING: why or None}}})
            return 0.0
        if made(machine):
            self._events.normal(machine, "Deleted", why, component=COMPONENT)
            self._cluster.delete(MACHINE, key[1], key[0])
            return None
        patch = {"metadata": {"annotations": {LEAVING: None}}, "spec": {"claim": None}}
        self._events.normal(self._machines.merge(machine, patch), "Released", why, component=COMPONENT)
        return None

    def _put_back(self, key: Key) -> None:
        """Put back the claim that somebody removed from a Machine which its cluster has something on."""
        for cluster in self._clusters.list(key[0]):
            if key[1] not in held(cluster):
                continue
            name = key_of(cluster)[1]
            now = declared_now(self._cluster, (key[0], name)), self._cluster.get(CLUSTER, name, key[0])
            if now[0] is None or now[1] is None or not owned_by(now[1], now[0]):
                continue
            for machine in without_claim(self._machines, now[1], now[0]["metadata"]["uid"]):
                if key_of(machine) == key:
                    patched = self._machines.merge(machine, {"spec": {"claim": machine["spec"]["claim"]}})
                    text = f"cluster {name} has something on it: {NOT_YOURS}"
                    self._events.warning(patched, "ClaimPutBack", text, component=COMPONENT)

    def _useless(self, machine: Json, deployment: Json | None, cluster: Json | None) -> str:
        """Return why a claim can be given up, "" when it cannot."""
        namespace, name = key_of(machine)
        why = needless(machine, deployment, cluster, claimed_by(self._machines, (namespace, _cluster(machine))))
        if why or deployment is None or dig(deployment, "spec", "paused") or use_of(machine, cluster).holds:
            return why
        if name not in self._given.get(namespace, {}):
            return ""
        older = self._given_back(namespace).get(name)  # as it is by now
        return f"cluster {older} is older and waits for it" if older else ""

    def _given_back(self, namespace: str) -> Mapping[str, str]:
        """Return the Machines that clusters give back which lack others, each with the cluster that gets it."""
        if len({Claimant.of(machine_set).cluster for machine_set in self._sets.by(where_lacks, namespace)}) < 2:
            return {}  # nobody else waits
        machines = self._machines.list(namespace)
        waiting = waiting_sets(self._sets.list(namespace), self._deployments.list(namespace), machines)
        used = frozenset().union(*map(held, self._clusters.list(namespace)))
        return given_back(waiting, machines, used)


def _cluster(machine: Json) -> str:
    return str(dig(machine, "spec", "claim", "cluster") or "")


def in_order(machines: Iterable[Json], machine_set: Json) -> list[Json]:
    """Return Machines of a set with those first that stay when it is to have fewer."""
    named = {machine["metadata"]["name"]: machine for machine in machines}
    models = map(DeclaredMachine.model_validate, named.values())
    over = {machine_set["name"]: Spreading.of(machine_set)} if machine_set.get("failureDomains") is not None else {}
    return [named[name] for name in reversed(scale_in_order(models, over))]


def leaving(machine: Json | None) -> bool:
    """Tell whether a Machine's claim is about to be given up: no operation begins on it any more."""
    return bool(dig(machine, "metadata", "annotations", LEAVING))


def needless(machine: Json, deployment: Json | None, cluster: Json | None, machines: Iterable[Json]) -> str:
    """Return why a claim can be given up, "" when it cannot.

    Args:
        deployment, cluster: what the claim names, as far as it is there.
        machines: at least those that the same cluster has claimed.
    """
    claim = machine["spec"]["claim"]
    name, set_name = claim["cluster"], claim["set"]
    if deployment is None:
        return f"cluster {name} is gone"
    if claim.get("uid") and claim["uid"] != deployment["metadata"]["uid"]:
        return f"cluster {name} is gone, and another one has its name"
    if deleting(deployment) or dig(deployment, "spec", "paused") or use_of(machine, cluster).holds:
        return ""
    machine_set = next((s for s in dig(deployment, "spec", "machineSets") or [] if s["name"] == set_name), None)
    if machine_set is None:
        return f"cluster {name} has no set {set_name} any more"
    names = dig(machine_set, "machines", "names")
    if names and machine["metadata"]["name"] not in names:
        return f"set {set_name} of cluster {name} does not name it any more"
    if why := going(machine):
        return f"another machine takes its place: {why}"
    own = in_order((m for m in machines if dig(m, "spec", "claim") == claim and not going(m)), machine_set)
    own.sort(key=lambda m: not use_of(m, cluster).holds)
    kept = [m["metadata"]["name"] for m in own[: machine_set.get("replicas", 1)]]
    return "" if machine["metadata"]["name"] in kept else f"set {set_name} of cluster {name} wants fewer machines"


def start(context: OperatorContext) -> None:
    """Hand the controller of claims to the manager."""
    context.run(ClaimsController(context).controller)
