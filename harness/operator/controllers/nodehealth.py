"""Machines as nodes: watches the Nodes of each guest cluster, and writes of each Machine what its node says.

A watch costs the infra cluster's API one connection in minutes where machines are reached through it, and nothing
elsewhere. Lists in turns would cost one each.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial

from harness.errors import VmatrixError
from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import dig
from harness.kube.owners import follow, owner_key
from harness.kube.reconcile import Controller
from harness.kube.resources import NODE
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import claimed_by
from harness.operator.controllers.cluster_children import set_name
from harness.operator.controllers.guest_access import GuestAccess
from harness.operator.controllers.guest_nodes import GuestNodes, GuestView
from harness.operator.controllers.machine_conditions import as_node, hostname, no_node
from harness.operator.controllers.machine_phase import has_node
from harness.operator.controllers.node_marks import MANAGER, NodeMarks, labels_to_apply, taints_to_merge

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
        deployed = bool(dig(self._clusters.get(*key), "status", "applied", "machines"))
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
        owner = owner_key(machine_set, CLUSTER_DEPLOYMENT)
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
