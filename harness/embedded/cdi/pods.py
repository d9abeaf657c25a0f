"""Importer and clone pods: their manifests as CDI's, and their status as a kubelet would write it.

The real scheduler binds them and they count against quotas, as on a real CDI; what they would do is done by this
process on the node (see `importer`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from harness.embedded.cdi import claims
from harness.embedded.cdi.download import UNPROCESSED
from harness.embedded.cdi.transfers import TransferResult
from harness.embedded.node.pods import container_status
from harness.kube.client import Json
from harness.kube.objects import dig, now, owner_reference, parse_time
from harness.kube.resources import PVC

# CDIConfig's podResourceRequirements when nobody set others
RESOURCES = {"limits": {"cpu": "750m", "memory": "600M"}, "requests": {"cpu": "100m", "memory": "60M"}}
# Less than CDI's 30 s: a transfer ends at once when it is told to, and Kubernetes waits half the grace period of any
# pod that is left before it looks again at a namespace that is being deleted.
GRACE_SECONDS = 1
UNPRIVILEGED_USER = 107  # the user qemu in CDI's images
SECCOMP = {"type": "RuntimeDefault"}
POD_SECURITY = {"fsGroup": UNPRIVILEGED_USER, "seccompProfile": SECCOMP}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": UNPRIVILEGED_USER,
    "seccompProfile": SECCOMP,
}
DATA_VOLUME_NAME = "cdi-data-vol"
SCRATCH_VOLUME_NAME = "cdi-scratch-vol"
LABELS = {**claims.NO_FILLING_UP_ALERT, **claims.APP, **claims.RECOMMENDED_LABELS, "prometheus.cdi.kubevirt.io": "true"}
FIRST_RESTART_SECONDS = 1.0  # a kubelet starts a container again at once the first time; visible for a moment
BACK_OFF_SECONDS = 10.0  # then after 10 s, 20 s, ... (kubelet's default CrashLoopBackOff)
LONGEST_BACK_OFF_SECONDS = 300.0  # kubelet's, too
KILLED = 137


def transfer_pod(claim: Json, name: str, role: str, *, scratch: bool = False) -> Json:
    """Return the pod that fills a claim: names.IMPORTER imports into it, names.CLONE_TARGET receives a clone for it.

    Args:
        scratch: whether it has a claim of its own to download into.
    """
    meta = claim["metadata"]
    volumes = {DATA_VOLUME_NAME: ("/data", meta["name"])}
    if scratch:
        volumes[SCRATCH_VOLUME_NAME] = ("/scratch", claims.scratch_name(meta["name"]))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "annotations": {
                f"{claims.GROUP}/storage.createdByController": "yes",
                "linkerd.io/inject": "disabled",
                "sidecar.istio.io/inject": "false",
            },
            "labels": {**LABELS, claims.ROLE: role},
            "ownerReferences": [owner_reference(claim, PVC)],
        },
        "spec": {
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [_container(role, {volume: path for volume, (path, _) in volumes.items()})],
            "volumes": [
                {"name": volume, "persistentVolumeClaim": {"claimName": name}} for volume, (_, name) in volumes.items()
            ],
        },
    }


def has_scratch(pod: Json) -> bool:
    """Tell whether a pod has scratch space."""
    return any(volume["name"] == SCRATCH_VOLUME_NAME for volume in pod["spec"].get("volumes") or [])


def _container(role: str, mounts: Mapping[str, str]) -> Json:
    return {
        "name": role,
        "image": role,
        "imagePullPolicy": "IfNotPresent",
        "resources": RESOURCES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts.items()],
    }


def container_of(pod: Json) -> Json:
    """Return the status of a pod's only container, empty when it has none yet."""
    container: Json = (dig(pod, "status", "containerStatuses") or [{}])[0]
    return container


def back_off_seconds(restarts: int) -> float:
    """Return how long a container waits after it ended for the n-th time, not counting the first."""
    return float(min(LONGEST_BACK_OFF_SECONDS, BACK_OFF_SECONDS * 2.0 ** (restarts - 1)))


def wait_before(was: Json, pause: float | None = None) -> float:
    """Return how long a container that ended still has to wait before it starts again, in seconds.

    Args:
        pause: how long in all; None for the kubelet's growing delays.
    """
    ended = dig(was, "state", "terminated")
    if ended is None and dig(was, "state", "waiting", "reason") == "CrashLoopBackOff":
        ended = dig(was, "lastState", "terminated")
    if ended is None:
        return 0.0
    restarts = int(was.get("restartCount") or 0)
    if pause is None:
        pause = FIRST_RESTART_SECONDS if restarts == 0 else back_off_seconds(restarts)
    age = (datetime.now(UTC) - parse_time(ended["finishedAt"])).total_seconds()
    return max(0.0, pause - age)


def started(pod: Json, was: Json, address: str) -> Json:
    """Return the status of a pod whose container runs, for the first time or again."""
    restarts = int(was.get("restartCount") or 0)
    last = dig(was, "state", "terminated") or dig(was, "lastState", "terminated")
    running = dig(was, "state", "running")
    if running is not None:
        last = {
            "exitCode": KILLED,
            "reason": "Error",
            "message": f"{UNPROCESSED}: the transfer was killed with the process that did it",
            "startedAt": running["startedAt"],
            "finishedAt": now(),
        }
    container = container_status(
        pod["spec"]["containers"][0],
        {"running": {"startedAt": now()}},
        ready=True,
        restarts=restarts + 1 if last else 0,
        last={"terminated": last} if last else None,
    )
    return {"hostIP": address, "podIP": address, "podIPs": [{"ip": address}], **around(pod, container)}


def creating(pod: Json) -> Json:
    """Return the status of a pod that has come to its node and has no container yet."""
    return waiting(pod, "ContainerCreating", "")


def waiting(pod: Json, reason: str, message: str) -> Json:
    """Return the status of a pod whose container cannot be created."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    container = container_status(pod["spec"]["containers"][0], state)
    return {**around(pod, container), "phase": "Pending"}


def terminated(pod: Json, outcome: TransferResult) -> Json:
    """Return the status of a pod whose transfer ended.

    The pod is Running still: a kubelet says how its containers ended before it says that it is over (`completed`).
    """
    failed = bool(outcome.message) and not outcome.fatal
    was = container_of(pod)
    ended = {
        "exitCode": 1 if failed else 0,
        "reason": "Error" if failed else "Completed",
        "message": outcome.message if failed else _termination_message(pod, outcome),
        "startedAt": dig(was, "state", "running", "startedAt") or now(),
        "finishedAt": now(),
    }
    restarts = int(was.get("restartCount") or 0)
    container = container_status(
        pod["spec"]["containers"][0], {"terminated": ended}, restarts=restarts, last=was.get("lastState")
    )
    return around(pod, container)


def _termination_message(pod: Json, outcome: TransferResult) -> str:
    """Return what a pod of CDI's leaves behind that ends with exit code 0 (TerminationMessage in pkg/common)."""
    if outcome.fatal:
        return json.dumps({"message": outcome.message})
    if pod["spec"]["containers"][0]["name"] != claims.IMPORTER:
        return json.dumps({"preallocationApplied": False, "message": "Clone Complete"})
    return json.dumps(
        {"scratchSpaceRequired": outcome.scratch, "preallocationApplied": False, "message": "Import Complete"}
    )


def ended_well(pod: Json) -> bool:
    """Tell whether a pod's container ended with exit code 0."""
    ended: Json = dig(container_of(pod), "state", "terminated") or {}
    return ended.get("exitCode") == 0


def completed(pod: Json) -> Json:
    """Return the status of a pod that is over."""
    return {**around(pod, container_of(pod)), "phase": "Succeeded"}


def around(pod: Json, container: Json) -> Json:
    """Return a pod's status around its only container's."""
    moment = now()
    ready = bool(container["ready"])
    old = {c["type"]: c for c in dig(pod, "status", "conditions") or []}
    expected = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
    conditions = [c for kind, c in old.items() if kind not in expected]
    for kind, value in expected.items():
        status = "True" if value else "False"
        same = old.get(kind, {}).get("status") == status
        since = old[kind]["lastTransitionTime"] if same else moment
        conditions.append({"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since})
    return {
        "phase": "Running",
        "startTime": dig(pod, "status", "startTime") or moment,
        "conditions": conditions,
        "containerStatuses": [container],
    }


def backing_off(pod: Json) -> Json | None:
    """Return the status of a pod whose container waits after an end, None when it need not say so (any more)."""
    was = container_of(pod)
    ended = dig(was, "state", "terminated")
    restarts = int(was.get("restartCount") or 0)
    if ended is None or restarts == 0:
        return None
    name = f"container={was['name']} pod={pod['metadata']['name']}"
    message = f"back-off {back_off_seconds(restarts):.0f}s restarting failed {name}"
    waiting = {"reason": "CrashLoopBackOff", "message": message}
    return around(pod, {**was, "lastState": {"terminated": ended}, "state": {"waiting": waiting}})
