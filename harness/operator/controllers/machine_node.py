"""A Machine as a node of its cluster: what the guest's API says of it, as status.node and condition NodeReady; pure."""

from __future__ import annotations

from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import condition, dig, without_condition
from harness.operator.api.conditions import NODE_READY, new
from harness.operator.controllers.guest_nodes import GuestView
from harness.operator.controllers.machine_conditions import steady


def as_node(machine: Json, view: GuestView, moment: datetime) -> Json:
    """Return `node` and `conditions` of a Machine that is deployed as a node.

    A guest that does not answer says nothing of its nodes: they are Unknown, never not ready.
    """
    if view.trouble:
        last = dig(machine, "status", "node")
        node = {**last, "ready": "Unknown"} if last else None
        why = f"the API of cluster {dig(machine, 'spec', 'claim', 'cluster')} does not answer: {view.trouble}"
        return _status(machine, node, new(NODE_READY, None, "ApiUnreachable", why, moment, None))
    name = hostname(machine)
    found = view.nodes.get(name)
    if found is None:
        return _status(machine, None, new(NODE_READY, False, "NodeMissing", f"there is no node {name}", moment, None))
    ready = condition(found, "Ready") or {"status": "Unknown", "reason": "NodeStatusUnknown"}
    node = {
        "name": name,
        "uid": found["metadata"]["uid"],
        "version": (dig(found, "status", "nodeInfo", "kubeletVersion") or "").removeprefix("v"),
        "ready": ready["status"],
        "since": ready.get("lastTransitionTime"),
    }
    says = ready.get("message") or "the kubelet says nothing of itself"
    reason = ready.get("reason") or "NodeStatusUnknown"
    return _status(machine, node, new(NODE_READY, ready["status"] == "True", reason, says, moment, None))


def no_node(machine: Json) -> Json:
    """Return `node` and `conditions` of a Machine that is no node, or not any more."""
    return {"node": None, "conditions": without_condition(dig(machine, "status", "conditions") or [], NODE_READY)}


def hostname(machine: Json) -> str:
    """Return a Machine's name in the inventory, which is its node's."""
    return str(dig(machine, "spec", "hostname") or machine["metadata"]["name"])


def _status(machine: Json, node: Json | None, ready: Json) -> Json:
    return {"node": node, "conditions": steady(dig(machine, "status", "conditions") or [], [ready])}
