"""The node's part for CDI's pods: what a kubelet and the importer in the pod would do, this process does.

A pod runs as long as its transfer. A failed transfer is started again with the kubelet's growing delays, for ever; a
fatal one ends the pod. A pod that is found running without a transfer lost it with an earlier process: it starts again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

from harness.errors import InfraError
from harness.infra.local.kubevirt.cdi import names, sizes
from harness.infra.local.kubevirt.cdi.provisioner import CONFIG_NAME, disk_path, scratch_dir
from harness.infra.local.kubevirt.cdi.sources import work_for
from harness.infra.local.kubevirt.cdi.transfers import Outcome, Transfer, Transfers
from harness.infra.local.kubevirt.context import Context
from harness.infra.local.kubevirt.objects import deleting, dig, now, parse_time, phase
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.reconcile import Controller
from harness.kube.resources import CDI_CONFIG, NODE, POD, PVC

FIRST_RESTART_SECONDS = 1.0  # a kubelet starts a container again at once the first time; visible for a moment
BACK_OFF_SECONDS = 10.0  # then after 10 s, 20 s, ... (kubelet's default CrashLoopBackOff)
LONGEST_BACK_OFF_SECONDS = 300.0
KILLED = 137
WORKERS = 4
SOON_SECONDS = 0.1


class Player:
    """Plays the importer pods and the clones' target pods that the scheduler bound to this node."""

    def __init__(self, context: Context, transfers: Transfers) -> None:
        self._context = context
        self._transfers = transfers
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(PVC)
        self._nodes = context.informers.of(NODE)
        self._config = context.informers.of(CDI_CONFIG)
        self._running: dict[Key, str] = {}
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
            self._running.pop(key, None)
            return None
        pod = self._context.cluster.get(POD, key[1], key[0])  # the informer may lag behind our own last write
        if pod is None or pod["metadata"]["uid"] != uid:
            return SOON_SECONDS
        if deleting(pod):
            return self._let_go(key, pod)
        if phase(pod) in {"Succeeded", "Failed"}:
            return None
        transfer = self._transfers.get(uid)
        if transfer is None:
            return self._begin(key, pod)
        if transfer.outcome is None:
            return None
        self._end(pod, transfer.outcome)
        self._transfers.forget(uid)
        return None

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
        self._running.pop(key, None)
        return None

    def _begin(self, key: Key, pod: Json) -> float | None:
        """Start a pod's transfer, for the first time or again, when it is time and there is a place."""
        was = _container(pod)
        wait = _wait_before(was)
        if wait > 0:
            self._show_back_off(pod, was)
            return wait
        claim = self._claims.get(key[0], dig(pod["spec"]["volumes"][0], "persistentVolumeClaim", "claimName"))
        if claim is None or phase(claim) != "Bound":
            return SOON_SECONDS
        uid = pod["metadata"]["uid"]
        scratch = scratch_dir(self._context.state) / secrets.token_hex(8)
        transfer = Transfer(_Failing(), disk_path(self._context.disks, claim["spec"]["volumeName"]), scratch)
        if not self._transfers.admit(uid, transfer):
            return 1.0
        try:
            transfer.work = work_for(self._context, claim, self._room(claim))
            self._write(pod, _started(pod, was, self._address()))
        except BaseException as error:
            self._transfers.forget(uid)
            if isinstance(error, InfraError) and not isinstance(error, ApiFailure):
                self._write(pod, _terminated(pod, Outcome(error.summary)))
                return None
            raise
        self._running[key] = uid
        self._transfers.start(transfer, lambda: self._look_again(key))
        return None

    def _look_again(self, ended: Key) -> None:
        self.controller.queue.add(ended)
        for pod in self._pods.list():
            if names.is_transfer_pod(pod) and phase(pod) == "Pending":
                self.controller.queue.add(key_of(pod))

    def _room(self, claim: Json) -> int:
        overhead = sizes.overhead_of(self._config.get("", CONFIG_NAME), claim["spec"].get("storageClassName") or "")
        mode = claim["spec"].get("volumeMode") or sizes.FILESYSTEM
        return sizes.disk_bytes(sizes.requested_bytes(claim), overhead, mode)

    def _address(self) -> str:
        node = self._nodes.get("", self._context.node)
        addresses = dig(node, "status", "addresses") or []
        return next((str(a["address"]) for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")

    def _end(self, pod: Json, outcome: Outcome) -> None:
        if not outcome.cancelled:
            self._write(pod, _terminated(pod, outcome))

    def _show_back_off(self, pod: Json, was: Json) -> None:
        terminated = dig(was, "state", "terminated")
        if terminated is None or int(was.get("restartCount") or 0) == 0:
            return
        seconds = _back_off(int(was["restartCount"]))
        name = pod["metadata"]["name"]
        message = f"back-off {seconds:.0f}s restarting failed container={was['name']} pod={name}"
        waiting = {"reason": "CrashLoopBackOff", "message": message}
        self._write(pod, _status(pod, {**was, "lastState": {"terminated": terminated}, "state": {"waiting": waiting}}))

    def _write(self, pod: Json, status: Json) -> None:
        meta = pod["metadata"]
        try:
            self._context.cluster.merge(
                POD,
                meta["name"],
                {"metadata": {"uid": meta["uid"]}, "status": status},
                meta["namespace"],
                subresource="status",
            )
        except ApiFailure as failure:
            if failure.code not in {404, 409}:  # gone, or another pod of that name: nothing to tell any more
                raise


class _Failing:
    """Stands in a place until the pod's real work is known."""

    def make(self, *_: object) -> None:
        raise InfraError("the transfer was never given its work")

    def progress(self, *_: object) -> float | None:
        return None


def _container(pod: Json) -> Json:
    found: Json = (dig(pod, "status", "containerStatuses") or [{}])[0]
    return found


def _back_off(restarts: int) -> float:
    return float(min(LONGEST_BACK_OFF_SECONDS, BACK_OFF_SECONDS * 2.0 ** (restarts - 1)))


def _wait_before(was: Json) -> float:
    """Return how long a container that ended still has to wait before it starts again, in seconds."""
    ended = dig(was, "state", "terminated")
    if ended is None and dig(was, "state", "waiting", "reason") == "CrashLoopBackOff":
        ended = dig(was, "lastState", "terminated")
    if ended is None:
        return 0.0
    restarts = int(was.get("restartCount") or 0)
    pause = FIRST_RESTART_SECONDS if restarts == 0 else _back_off(restarts)
    age = (datetime.now(UTC) - parse_time(ended["finishedAt"])).total_seconds()
    return max(0.0, pause - age)


def _started(pod: Json, was: Json, address: str) -> Json:
    """Return the status of a pod whose container runs, for the first time or again."""
    restarts = int(was.get("restartCount") or 0)
    last = dig(was, "state", "terminated") or dig(was, "lastState", "terminated")
    running = dig(was, "state", "running")
    if running is not None:
        last = {
            "exitCode": KILLED,
            "reason": "Error",
            "message": "Unable to process data: the transfer was killed with the process that did it",
            "startedAt": running["startedAt"],
            "finishedAt": now(),
        }
    container = {
        **_named(pod),
        "ready": True,
        "started": True,
        "restartCount": restarts + 1 if was else 0,
        "state": {"running": {"startedAt": now()}},
        "lastState": {"terminated": last} if last else {},
    }
    return {"hostIP": address, "podIP": address, "podIPs": [{"ip": address}], **_status(pod, container)}


def _terminated(pod: Json, outcome: Outcome) -> Json:
    """Return the status of a pod whose transfer ended; only a retriable failure keeps the pod alive."""
    failed = bool(outcome.message) and not outcome.fatal
    said = f"Unable to process data: {outcome.message}"
    message = said if failed else json.dumps({"message": said} if outcome.fatal else {"scratchSpaceRequired": False})
    was = _container(pod)
    terminated = {
        "exitCode": 1 if failed else 0,
        "reason": "Error" if failed else "Completed",
        "message": message,
        "startedAt": dig(was, "state", "running", "startedAt") or now(),
        "finishedAt": now(),
    }
    container = {
        **_named(pod),
        "ready": False,
        "started": False,
        "restartCount": int(was.get("restartCount") or 0),
        "state": {"terminated": terminated},
        "lastState": was.get("lastState") or {},
    }
    return _status(pod, container, done=not failed)


def _named(pod: Json) -> Mapping[str, str]:
    name = pod["spec"]["containers"][0]["name"]
    return {"name": name, "image": name, "imageID": name}


def _status(pod: Json, container: Json, *, done: bool = False) -> Json:
    """Return a pod's status around its only container's."""
    moment = now()
    ready = bool(container["ready"])
    old = {c["type"]: c for c in dig(pod, "status", "conditions") or []}
    wanted = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
    conditions = [c for kind, c in old.items() if kind not in wanted]
    for kind, value in wanted.items():
        status = "True" if value else "False"
        same = old.get(kind, {}).get("status") == status
        since = old[kind]["lastTransitionTime"] if same else moment
        conditions.append({"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since})
    return {
        "phase": "Succeeded" if done else "Running",
        "startTime": dig(pod, "status", "startTime") or moment,
        "conditions": conditions,
        "containerStatuses": [container],
    }
