"""The node's part for CDI's pods: what a kubelet and the importer in the pod would do, this process does.

A pod runs as long as its transfer. What it says is first noticed by its claim and its DataVolume, then it goes on: a
kubelet takes longer for each step than CDI's controllers take to notice it, and here it could be quicker. A failed
transfer is started again with the kubelet's growing delays, for ever; a fatal one ends the pod. A pod that is found
running without a transfer lost it with an earlier process: it starts again.
"""

from __future__ import annotations

import secrets

from harness.embedded.cdi import names, podstatus, sizes
from harness.embedded.cdi.catching_up import CatchingUp, claim_of
from harness.embedded.cdi.importer_messages import UNPROCESSED
from harness.embedded.cdi.podspecs import has_scratch
from harness.embedded.cdi.provisioner import disk_path, scratch_dir
from harness.embedded.cdi.sources import SourceMissing, work_for
from harness.embedded.cdi.transfers import Transfer, TransferResult, Transfers
from harness.embedded.context import Context
from harness.embedded.faults import transfers as befallen
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import NODE, POD, PVC

WORKERS = 4
SOON_SECONDS = 0.1  # between looks at a transfer or a claim that is about to change
FULL_SECONDS = 1.0  # between looks for a free place among the transfers


class Player:
    """Plays the importer pods and the clones' target pods that the scheduler bound to this node."""

    def __init__(self, context: Context, transfers: Transfers) -> None:
        self._context = context
        self._transfers = transfers
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(PVC)
        self._nodes = context.informers.of(NODE)
        self._running: dict[Key, str] = {}
        self._catching_up = CatchingUp(context)
        self.controller = Controller("cdi-pods", self.reconcile, workers=WORKERS)
        self._pods.subscribe(self._listen)
        context.on_stop(transfers.cancel_all)

    def _listen(self, _: str, pod: Json) -> None:
        if names.is_transfer_pod(pod):
            self.controller.queue.add(key_of(pod))

    def reconcile(self, key: Key) -> float | None:
        """Bring one pod on: start, end, start again, or let it go."""
        pod = self._pods.get(*key)
        uid = pod["metadata"]["uid"] if pod is not None else ""
        former = self._running.get(key, uid)
        if former != uid and not self._stopped(former):
            return SOON_SECONDS
        if pod is None or not names.is_transfer_pod(pod) or pod["spec"].get("nodeName") != self._context.node:
            self._forget(key)
            return None
        pod = self._context.cluster.get(POD, key[1], key[0])  # the informer may lag behind our own last write
        if pod is None or pod["metadata"]["uid"] != uid:
            return SOON_SECONDS
        if deleting(pod):
            return self._let_go(key, pod)
        if phase(pod) in {"Succeeded", "Failed"}:
            return None
        transfer = self._transfers.get(uid)
        if transfer is not None and transfer.outcome is None:
            return None
        if not self._catching_up.done(key, pod):
            return SOON_SECONDS
        if transfer is None:
            return self._begin(key, pod)
        if transfer.outcome is not None and not transfer.outcome.cancelled:
            self._write(pod, podstatus.terminated(pod, transfer.outcome))
        self._transfers.forget(uid)
        return None

    def _forget(self, key: Key) -> None:
        self._running.pop(key, None)
        self._catching_up.forget(key)

    def _stopped(self, uid: str) -> bool:
        """Stop a transfer; True once it has ended."""
        transfer = self._transfers.get(uid)
        if transfer is None:
            return True
        transfer.cancel.set()
        if transfer.outcome is None:
            return False
        self._transfers.forget(uid)
        return True

    def _let_go(self, key: Key, pod: Json) -> float | None:
        if not self._stopped(pod["metadata"]["uid"]):
            return SOON_SECONDS
        self._context.cluster.delete(POD, key[1], key[0], grace=0)
        self._forget(key)
        return None

    def _begin(self, key: Key, pod: Json) -> float | None:
        """Start a pod's transfer, for the first time or again, when it is time and there is a place.

        A pod whose transfer ended well is over instead.
        """
        if podstatus.ended_well(pod):
            self._write(pod, podstatus.completed(pod))
            return None
        was = podstatus.container_of(pod)
        claim = self._claims.get(key[0], claim_of(pod))
        wait = podstatus.wait_before(was, befallen.pause(self._context.faults, claim))
        if wait > 0:
            waiting = podstatus.backing_off(pod)
            if waiting is not None:
                self._write(pod, waiting)
            return wait
        if claim is None or phase(claim) != "Bound" or self._held(pod, claim):
            return SOON_SECONDS
        if not was:
            self._write(pod, podstatus.creating(pod))
            return SOON_SECONDS
        try:
            work = work_for(self._context, claim, sizes.disk_bytes(claim), scratch=has_scratch(pod))
        except SourceMissing as missing:
            self._write(pod, podstatus.terminated(pod, TransferResult(f"{UNPROCESSED}: {missing.summary}")))
            return None
        work = befallen.work(self._context.faults, claim, work, int(was.get("restartCount") or 0))
        scratch = scratch_dir(self._context.state) / secrets.token_hex(8)
        transfer = Transfer(work, disk_path(self._context.disks, claim["spec"]["volumeName"]), scratch)
        uid = pod["metadata"]["uid"]
        if not self._transfers.admit(uid, transfer):
            return FULL_SECONDS
        try:
            self._write(pod, podstatus.started(pod, was, self._address()))
        except BaseException:
            self._transfers.forget(uid)
            raise
        self._running[key] = uid
        self._transfers.start(transfer, lambda: self._look_again(key))
        return None

    def _held(self, pod: Json, claim: Json) -> bool:
        """Tell whether a fault keeps a pod without its container; the pod's status then says why."""
        asked = befallen.waiting(self._context.faults, claim)
        if asked is None:
            return False
        if not podstatus.container_of(pod):
            self._write(pod, podstatus.waiting(pod, asked["reason"], asked["message"]))
            self._context.events.warning(pod, "Failed", f"Error: {asked['message']}", component="kubelet")
        return True

    def _look_again(self, ended: Key) -> None:
        self.controller.queue.add(ended)
        for pod in self._pods.list():
            if names.is_transfer_pod(pod) and phase(pod) == "Pending":
                self.controller.queue.add(key_of(pod))

    def _address(self) -> str:
        node = self._nodes.get("", self._context.node)
        addresses = dig(node, "status", "addresses") or []
        return next((str(a["address"]) for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")

    def _write(self, pod: Json, status: Json) -> None:
        self._catching_up.forget(key_of(pod))
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            self._context.cluster.merge(POD, meta["name"], patch, meta["namespace"], subresource="status")
        except ApiFailure as failure:
            if not (failure.not_found or failure.conflict):  # gone, or another pod of that name: nothing to tell
                raise
