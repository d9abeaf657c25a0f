"""Nodes of guest clusters: watch them, write what they say into Machines, keep their labels and taints.

Labels are applied server-side by a manager of their own: what it does not apply any more goes, what others set stays.
The list of taints is one field to an API server, whoever wrote it. So an annotation says which of them are ours.

A watch costs the infra cluster's API one connection in minutes where machines are reached through it, and nothing
elsewhere. Lists in turns would cost one each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from harness.errors import VmatrixError
from harness.kube.client import Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import dig
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import NODE
from harness.operator.api.resources import CLUSTER, GROUP, MACHINE, MACHINE_SET
from harness.operator.api.sets import set_name
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import declared_key, of_etcd
from harness.operator.controllers.guest import GuestAccess, GuestNodes, GuestView
from harness.operator.controllers.machine import as_node, hostname, no_node
from harness.operator.controllers.machine_phase import claimed_by, has_node

MANAGER = "vmatrix-nodes"
MACHINE_LABEL = f"{GROUP}/machine"
TAINTS = f"{GROUP}/taints"  # annotation of a Node: the taints that were set here, as KEY=VALUE:EFFECT
LABEL_LENGTH = 63


@dataclass(frozen=True)
class NodeMarks:
    """What a Node has because its Machine is in a set."""

    labels: Mapping[str, str]
    taints: tuple[Json, ...] = ()

    @staticmethod
    def of(machine: Json, machine_set: Json | None) -> NodeMarks | None:
        """Return what the Node of a Machine is to have; None where its set is not known, and nothing is changed."""
        if machine_set is None:
            return None
        name = machine["metadata"]["name"]
        own = {MACHINE_LABEL: name} if len(name) <= LABEL_LENGTH else {}
        labels = {**(dig(machine_set, "spec", "labels") or {}), **own}
        return NodeMarks(labels, tuple(_plain(taint) for taint in dig(machine_set, "spec", "taints") or ()))


def labels_to_apply(node: Json, marks: NodeMarks) -> Json | None:
    """Return what to apply so that a Node has its labels, None where it has them and none too many of ours.

    It names the Node's UID: applied to a Node that is gone, it makes no new one.
    """
    labels = labels_of(node)
    if all(labels.get(key) == value for key, value in marks.labels.items()) and _ours(node) == set(marks.labels):
        return None
    meta = {name: node["metadata"][name] for name in ("name", "uid")}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {**meta, "labels": dict(marks.labels)}}


def taints_to_merge(node: Json, marks: NodeMarks) -> Json | None:
    """Return the patch after which a Node has its taints, None where it has them and none too many of ours."""
    taints = [dict(taint) for taint in dig(node, "spec", "taints") or ()]
    annotation = (node["metadata"].get("annotations") or {}).get(TAINTS)
    before, expected_taints = set((annotation or "").split(",")) - {""}, {_text(taint) for taint in marks.taints}
    mine = {_place(taint) for taint in marks.taints}
    others = [taint for taint in taints if _text(taint) not in before and _place(taint) not in mine]
    left = [taint for taint in taints if _text(taint) in expected_taints]
    missing = [taint for taint in marks.taints if _text(taint) not in {_text(taint_left) for taint_left in left}]
    expected_annotation = ",".join(sorted(expected_taints)) or None
    kept = [taint for taint in taints if taint in others or taint in left]
    if kept == taints and not missing and annotation == expected_annotation:
        return None
    meta = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {TAINTS: expected_annotation}}
    return {"metadata": meta, "spec": {"taints": [*kept, *missing]}}


def _ours(node: Json) -> set[str]:
    """Return the labels of a Node that were applied here."""
    entries: Iterable[Json] = node["metadata"].get("managedFields") or ()
    mine = (entry for entry in entries if (entry.get("manager"), entry.get("operation")) == (MANAGER, "Apply"))
    return {key.removeprefix("f:") for entry in mine for key in dig(entry, "fieldsV1", "f:metadata", "f:labels") or {}}


def _plain(taint: Json) -> Json:
    return {name: taint[name] for name in ("key", "value", "effect") if taint.get(name)}


def _place(taint: Json) -> tuple[str, str]:
    """Return what tells taints of one Node apart."""
    return taint["key"], taint["effect"]


def _text(taint: Json) -> str:
    return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"


log = logging.getLogger(__name__)
NOT_ASKED = GuestView()


class NodeHealth:
    """Keeps a watch of each guest that was deployed, and the nodes of Machines as they are seen there."""

    def __init__(self, context: OperatorContext) -> None:
        self._access = GuestAccess(context)
        self._machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._sets = context.informers.of(MACHINE_SET)
        self._guests: dict[Key, GuestNodes] = {}
        self.guests = Controller("nodehealth-guests", self.watch, workers=1)
        self.controller = Controller("nodehealth", self.reconcile)
        follow(self._clusters, self.guests.queue)
        follow(self._machines, self.controller.queue)
        self._sets.subscribe(self._set_changed)
        context.on_stop(self._stop)

    def watch(self, key: Key) -> float | None:
        """Begin or end the watch of one Cluster's guest."""
        cluster = self._clusters.get(*key)
        deployed = bool(dig(cluster, "status", "applied", "machines")) and not of_etcd(cluster)  # which has no nodes
        if deployed and key not in self._guests:
            changed = partial(self._look_at_all, key)
            self._guests[key] = GuestNodes("/".join(key), partial(self._access.open, key), changed)
        elif not deployed and key in self._guests:
            self._guests.pop(key).stop()
        self._look_at_all(key)
        return None

    def _look_at_all(self, key: Key) -> None:
        for machine in claimed_by(self._machines, key):
            self.controller.queue.add(key_of(machine))

    def _set_changed(self, _: str, machine_set: Json) -> None:
        owner = declared_key(machine_set)
        if owner is not None:
            self._look_at_all(owner)

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine."""
        machine = self._machines.get(*key)
        if machine is not None:
            self._machines.merge_status(machine, self._as_node(machine))
        return None

    def _as_node(self, machine: Json) -> Json:
        namespace, name = key_of(machine)
        cluster = self._clusters.get(namespace, dig(machine, "spec", "claim", "cluster") or "")
        deployed = name in (dig(cluster, "status", "applied", "machines") or ())
        if cluster is None or not deployed or not has_node(dig(machine, "status", "roles") or ()):
            return no_node(machine)
        guest = self._guests.get(key_of(cluster))
        view = guest.view if guest is not None else NOT_ASKED
        if view == NOT_ASKED:  # a manager that has just started knows nothing better than what is written
            return {}
        claim = machine["spec"]["claim"]
        mark(machine, view, self._sets.get(namespace, set_name(claim["cluster"], claim["set"])))
        return as_node(machine, view, datetime.now(UTC))

    def _stop(self) -> None:
        for guest in self._guests.values():
            guest.stop()


def mark(machine: Json, view: GuestView, machine_set: Json | None) -> None:
    """Have a guest's Node say which Machine it is, and bear the labels and taints of its set."""
    node, marks = view.nodes.get(hostname(machine)), NodeMarks.of(machine, machine_set)
    if node is None or view.guest is None or marks is None:
        return
    try:
        if (labels := labels_to_apply(node, marks)) is not None:
            view.guest.apply(NODE, labels, manager=MANAGER)
        elif (taints := taints_to_merge(node, marks)) is not None:  # after the labels, which make it another version
            view.guest.merge(NODE, node["metadata"]["name"], taints)
    except VmatrixError as error:  # a guest in trouble, or somebody was faster: its next word brings the next try
        log.debug("node of machine %s was not marked: %s", machine["metadata"]["name"], error)


def start(context: OperatorContext) -> None:
    """Hand the controllers of nodes' health to the manager."""
    health = NodeHealth(context)
    context.run(health.guests)
    context.run(health.controller)
