"""Pods on this host's Node that are neither machines' nor CDI's: nothing of them runs, so they go when they are to.

The scheduler may bind any pod to the Node that stands for this host, as long as that has no taint. On kind, under
load, it was the one of CoreDNS that its Deployment was about to replace. Only a node's kubelet lets a bound pod go;
without one it would be deleted for ever.
"""

from __future__ import annotations

from harness.embedded.cdi.names import is_transfer_pod
from harness.embedded.context import Context
from harness.embedded.node import pods
from harness.embedded.node.kubelet import is_launcher
from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting
from harness.kube.reconcile import Controller
from harness.kube.resources import POD


class Strangers:
    """Lets deleted pods go that nobody else on this node looks after."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods = context.informers.of(POD)
        self.controller = Controller("strangers", self.reconcile, workers=1)
        self._pods.subscribe(self._changed)

    def _mine(self, pod: Json) -> bool:
        here = bool(pod["spec"].get("nodeName") == self._context.node)
        return here and deleting(pod) and not is_launcher(pod) and not is_transfer_pod(pod)

    def _changed(self, _: str, pod: Json) -> None:
        if self._mine(pod):
            self.controller.queue.add(key_of(pod))

    def reconcile(self, key: Key) -> None:
        """Look at one pod."""
        pod = self._pods.get(*key)
        if pod is not None and self._mine(pod):
            pods.remove(self._context.cluster, pod)
