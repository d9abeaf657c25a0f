"""Pod placement: taint this host's Node once another node runs pods, and let machines' and CDI's pods tolerate it.

Without such a node this host's is the only one, and nothing is said: pods are as a real KubeVirt's. With it, this
host's Node has a taint, which this part's own pods tolerate; they name this host, so that no kubelet runs them.
"""

from __future__ import annotations

from harness.embedded.context import Context
from harness.kube.client import Json
from harness.kube.informer import Key, labels_of
from harness.kube.objects import dig
from harness.kube.reconcile import Controller
from harness.kube.resources import NODE

RUNS_PODS = "vmatrix.dev/runs-pods"  # label of a node
MACHINES_ONLY = {"key": "vmatrix.dev/machines-only", "effect": "NoSchedule"}
TOLERATION = {**MACHINES_ONLY, "operator": "Exists"}
HERE = {"kubevirt.io/schedulable": "true"}


def elsewhere(context: Context) -> bool:
    """Tell whether another node runs pods."""
    nodes = context.informers.of(NODE).list()
    return any(RUNS_PODS in labels_of(node) and node["metadata"]["name"] != context.node for node in nodes)


def placed(context: Context, pod: Json) -> Json:
    """Return a pod of this part as it has to be created for it to come to this host."""
    if not elsewhere(context):
        return pod
    spec = pod["spec"]
    more = {
        "tolerations": [*(spec.get("tolerations") or []), TOLERATION],
        "nodeSelector": {**(spec.get("nodeSelector") or {}), **HERE},
    }
    return {**pod, "spec": {**spec, **more}}


class Placement:
    """Keeps the taint of this host's Node in line with whether another node runs pods."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._nodes = context.informers.of(NODE)
        self.controller = Controller("placement", self.reconcile, workers=1)
        self._nodes.subscribe(lambda *_: self.controller.queue.add(("", context.node)))

    def reconcile(self, key: Key) -> None:
        """Look at this host's Node."""
        node = self._nodes.get(*key)
        if node is None:
            return
        had = dig(node, "spec", "taints") or []
        others = [taint for taint in had if taint["key"] != MACHINES_ONLY["key"]]
        wanted = [*others, MACHINES_ONLY] if elsewhere(self._context) else others
        if len(wanted) != len(had):
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}  # nobody's taint of meanwhile is lost
            patch = {"metadata": version, "spec": {"taints": wanted}}
            self._nodes.observe(self._context.cluster.merge(NODE, self._context.node, patch))
