"""Importer: run the transfers of importer and clone pods, as the kubelet and the program in the pod would.

A pod runs as long as its transfer. What it says is first noticed by its claim and its DataVolume, then it goes on:
a kubelet takes longer for each step than CDI's controllers take to notice it, and here it could be quicker. A
failed transfer is started again with the kubelet's growing delays, for ever; a fatal one ends the pod. A pod that
is found running without a transfer lost it with an earlier process: it starts again.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Mapping

from harness.embedded.cdi import claims, pods
from harness.embedded.cdi import transfers as transfer_faults
from harness.embedded.cdi.claims import disk_bytes, requested_bytes
from harness.embedded.cdi.download import UNPROCESSED, Request, basic_auth
from harness.embedded.cdi.population import annotations_from_pod
from harness.embedded.cdi.provisioner import disk_path, scratch_dir
from harness.embedded.cdi.transfers import Blank, Clone, ImportHttp, LookHttp, Transfer, TransferResult, Transfers, Work
from harness.embedded.context import Context
from harness.errors import InfraError
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import condition, deleting, dig, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import CONFIG_MAP, DATA_VOLUME, NODE, POD, PVC, SECRET, Resource

NOTICE_SECONDS = 3.0  # at most, for claim and DataVolume to say what the pod says: they may have nobody to do so
WORKERS = 4
SOON_SECONDS = 0.1  # between looks at a transfer or a claim that is about to change
FULL_SECONDS = 1.0  # between looks for a free place among the transfers


class Importer:
    """Runs the importer pods and the clones' target pods that the scheduler bound to this node."""

    def __init__(self, context: Context, transfers: Transfers) -> None:
        self._context = context
        self._transfers = transfers
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(PVC)
        self._nodes = context.informers.of(NODE)
        self._running: dict[Key, str] = {}
        self._propagation = StatusPropagation(context)
        self.controller = Controller("cdi-pods", self.reconcile, workers=WORKERS)
        self._pods.subscribe(self._listen)
        context.on_stop(transfers.cancel_all)

    def _listen(self, _: str, pod: Json) -> None:
        if claims.is_transfer_pod(pod):
            self.controller.queue.add(key_of(pod))

    def reconcile(self, key: Key) -> float | None:
        """Bring one pod on: start, end, start again, or let it go."""
        pod = self._pods.get(*key)
        uid = pod["metadata"]["uid"] if pod is not None else ""
        former = self._running.get(key, uid)
        if former != uid and not self._stopped(former):
            return SOON_SECONDS
        if pod is None or not claims.is_transfer_pod(pod) or not self._context.here(pod):
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
        if not self._propagation.complete(key, pod):
            return SOON_SECONDS
        if transfer is None:
            return self._begin(key, pod)
        if transfer.outcome is not None and not transfer.outcome.cancelled:
            self._write(pod, pods.terminated(pod, transfer.outcome))
        self._transfers.forget(uid)
        return None

    def _forget(self, key: Key) -> None:
        self._running.pop(key, None)
        self._propagation.forget(key)

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
        if pods.ended_well(pod):
            self._write(pod, pods.completed(pod))
            return None
        was = pods.container_of(pod)
        claim = self._claims.get(key[0], claim_of(pod))
        wait = pods.wait_before(was, transfer_faults.pause(self._context.faults, claim))
        if wait > 0:
            waiting = pods.backing_off(pod)
            if waiting is not None:
                self._write(pod, waiting)
            return wait
        if claim is None or phase(claim) != "Bound" or self._held(pod, claim):
            return SOON_SECONDS
        if not was:
            self._write(pod, pods.creating(pod))
            return SOON_SECONDS
        try:
            work = work_for(self._context, claim, disk_bytes(claim), scratch=pods.has_scratch(pod))
        except SourceMissing as missing:
            self._write(pod, pods.terminated(pod, TransferResult(f"{UNPROCESSED}: {missing.summary}")))
            return None
        work = transfer_faults.work(self._context.faults, claim, work, int(was.get("restartCount") or 0))
        scratch = scratch_dir(self._context.state) / secrets.token_hex(8)
        transfer = Transfer(work, disk_path(self._context.disks, claim["spec"]["volumeName"]), scratch)
        uid = pod["metadata"]["uid"]
        if not self._transfers.admit(uid, transfer):
            return FULL_SECONDS
        try:
            self._write(pod, pods.started(pod, was, self._address(pod)))
        except BaseException:
            self._transfers.forget(uid)
            raise
        self._running[key] = uid
        self._transfers.start(transfer, lambda: self._look_again(key))
        return None

    def _held(self, pod: Json, claim: Json) -> bool:
        """Tell whether a fault keeps a pod without its container; the pod's status then says why."""
        asked = transfer_faults.waiting(self._context.faults, claim)
        if asked is None:
            return False
        if not pods.container_of(pod):
            self._write(pod, pods.waiting(pod, asked["reason"], asked["message"]))
            self._context.events.warning(pod, "Failed", f"Error: {asked['message']}", component="kubelet")
        return True

    def _look_again(self, ended: Key) -> None:
        self.controller.queue.add(ended)
        for pod in self._pods.list():
            if claims.is_transfer_pod(pod) and phase(pod) == "Pending":
                self.controller.queue.add(key_of(pod))

    def _address(self, pod: Json) -> str:
        node = self._nodes.get("", pod["spec"]["nodeName"])
        addresses = dig(node, "status", "addresses") or []
        return next((str(a["address"]) for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")

    def _write(self, pod: Json, status: Json) -> None:
        self._propagation.forget(key_of(pod))
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            self._context.cluster.merge(POD, meta["name"], patch, meta["namespace"], subresource="status")
        except ApiFailure as failure:
            if not (failure.not_found or failure.conflict):  # gone, or another pod of that name: nothing to tell
                raise


class StatusPropagation:
    """Compares the status of pods with what their claims and DataVolumes say."""

    def __init__(self, context: Context) -> None:
        self._claims = context.informers.of(PVC)
        self._volumes = context.informers.of(DATA_VOLUME)
        self._since: dict[Key, float] = {}

    def complete(self, key: Key, pod: Json) -> bool:
        """Tell whether both have caught up with a pod, or could have long ago."""
        name = claim_of(pod)
        claim, volume = self._claims.get(key[0], name), self._volumes.get(key[0], name)
        annotations = {
            k: v for k, v in annotations_from_pod(pod).items() if k in (claims.RUNNING, claims.RUNNING_REASON)
        }
        told = claims.annotations_of(claim) if claim is not None else {}
        shown = (condition(volume, "Running") or {}).get("reason", "") if volume is not None else None
        reason = annotations.get(claims.RUNNING_REASON)
        if all(told.get(k) == v for k, v in annotations.items()) and (None in (shown, reason) or shown == reason):
            self.forget(key)
            return True
        return time.monotonic() > self._since.setdefault(key, time.monotonic()) + NOTICE_SECONDS

    def forget(self, key: Key) -> None:
        """Wait anew for what a pod says next."""
        self._since.pop(key, None)


def claim_of(pod: Json) -> str:
    """Return the name of the claim that a pod fills."""
    return str(dig(pod["spec"]["volumes"][0], "persistentVolumeClaim", "claimName"))


class SourceMissing(InfraError):
    """Something that a transfer needs is not there (yet)."""


def work_for(context: Context, claim: Json, room: int, *, scratch: bool) -> Work:
    """Return what fills a claim's disk of `room` bytes.

    Args:
        scratch: whether the pod has scratch space; an importer without it only looks at the image.

    Raises:
        SourceMissing: something it names is not there (yet).
    """
    annotations = claims.annotations_of(claim)
    cloned = annotations.get(claims.CLONE_REQUEST)
    if cloned:
        return _clone_work(context, cloned, room)
    if annotations.get(claims.SOURCE) == "none":
        return Blank(room)
    request = _http_request(context, claim["metadata"]["namespace"], annotations)
    return ImportHttp(request, room, requested_bytes(claim)) if scratch else LookHttp(request)


def _clone_work(context: Context, cloned: str, room: int) -> Work:
    namespace, _, name = cloned.partition("/")
    source = context.informers.of(PVC).get(namespace, name)
    if source is None or phase(source) != "Bound":
        raise SourceMissing(f"source claim {cloned} does not exist or is not bound")
    return Clone(disk_path(context.disks, source["spec"]["volumeName"]), room)


def _http_request(context: Context, namespace: str, annotations: Mapping[str, str]) -> Request:
    secret, certificates = annotations.get(claims.SECRET), annotations.get(claims.CERT_CONFIG_MAP)
    encoded = _referenced_data(context, SECRET, namespace, secret) if secret else {}
    user, password = (base64.b64decode(encoded.get(key, "")).decode() for key in ("accessKeyId", "secretKey"))
    return Request(
        url=annotations[claims.ENDPOINT],
        checksum=annotations.get(claims.CHECKSUM, ""),
        headers=basic_auth(user, password) if secret else {},
        ca="\n".join(_referenced_data(context, CONFIG_MAP, namespace, certificates).values()) if certificates else "",
    )


def _referenced_data(context: Context, resource: Resource, namespace: str, name: str) -> dict[str, str]:
    referenced = context.cluster.get(resource, name, namespace)
    if referenced is None:
        word = resource.kind.lower()
        raise SourceMissing(f'{word} "{name}" not found', hint=f"create it in namespace {namespace}")
    return referenced.get("data") or {}
