"""The Node stays alive: its lease is renewed, and its status written again when the control plane gave it up.

While the API was away the node controller may have marked the Node's conditions Unknown and tainted it; only a new
status brings it back, a renewed lease does not.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

from harness.embedded.context import Context
from harness.embedded.node import machine
from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key
from harness.kube.objects import is_condition
from harness.kube.reconcile import Controller
from harness.kube.resources import LEASE, NODE

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 10.0  # a quarter of the lease, as kubelet's
RETRY_SECONDS = 1.0  # between tries while the API server has trouble; the lease is not over by then
LEASE_SECONDS = 40  # kubelet's default
LEASES = "kube-node-lease"


class NodeStatus:
    """Writes the Node's status again whenever somebody else made it other than Ready, or took the Node away."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._nodes = context.informers.of(NODE)
        self.controller = Controller("node", self.reconcile, workers=1)
        self._nodes.subscribe(self._changed)

    def _changed(self, _: str, node: Json) -> None:
        if node["metadata"]["name"] == self._context.node:
            self.controller.queue.add(("", self._context.node))

    def reconcile(self, key: Key) -> float | None:
        """Look at the Node."""
        node = self._nodes.get(*key)
        if node is None:
            machine.register(self._context)
        elif not is_condition(node, "Ready", "True"):
            log.warning("the control plane marked node %s as not ready; reporting its status again", key[1])
            machine.report(self._context)
        return None


def beat(context: Context) -> None:
    """Renew the Node's lease, making it when it is not there."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        context.cluster.merge(LEASE, context.node, {"spec": {"renewTime": moment}}, LEASES)
        return
    except ApiFailure as failure:
        if not failure.not_found:
            raise
    owner = context.cluster.get(NODE, context.node)
    if owner is None:
        return
    reference = {"apiVersion": "v1", "kind": "Node", "name": context.node, "uid": owner["metadata"]["uid"]}
    context.cluster.ensure(
        LEASE,
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": context.node, "namespace": LEASES, "ownerReferences": [reference]},
            "spec": {"holderIdentity": context.node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": moment},
        },
    )


def start(context: Context) -> None:
    """Renew the lease now and from now on, on a daemon thread, until the context stops."""

    def run() -> None:
        wait = HEARTBEAT_SECONDS
        while not context.stopping.wait(wait):
            try:
                beat(context)
                wait = HEARTBEAT_SECONDS
            except VmatrixError as error:
                wait = RETRY_SECONDS
                log.warning("heartbeat of node %s failed: %s", context.node, error)

    beat(context)
    threading.Thread(target=run, name="heartbeat", daemon=True).start()
