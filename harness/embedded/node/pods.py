"""Pod statuses as a kubelet writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, is_condition, now
from harness.kube.resources import POD

KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def running(pod: Json, *, addresses: Sequence[str], host_address: str) -> Json:
    """Return the status of a pod whose containers all run and are ready; `addresses`: one of each family."""
    moment = now()
    status = _base(pod, moment, host_address)
    status["phase"] = "Running"
    if addresses:
        status["podIP"] = addresses[0]
        status["podIPs"] = [{"ip": address} for address in addresses]
    state = {"running": {"startedAt": moment}}
    status["containerStatuses"] = [container_status(c, state, ready=True) for c in pod["spec"]["containers"]]
    if init := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [container_status(c, state, ready=True) for c in init]
    return _with_conditions(status, pod, moment, ready="True", reason=None)


def ended(pod: Json, *, exit_code: int, reason: str, message: str = "") -> Json:
    """Return the status of a pod whose containers all ended: Succeeded for exit code 0, else Failed."""
    moment = now()
    status = _base(pod, moment, dig(pod, "status", "hostIP") or "")
    status["phase"] = "Succeeded" if exit_code == 0 else "Failed"
    started = dig(pod, "status", "startTime") or moment
    terminated: Json = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": moment}
    if message:
        terminated["message"] = message[:4096]
    state = {"terminated": terminated}
    status["containerStatuses"] = [container_status(c, state) for c in pod["spec"]["containers"]]
    done = "PodCompleted" if exit_code == 0 else "PodFailed"
    return _with_conditions(status, pod, moment, ready="False", reason=done)


def _base(pod: Json, moment: str, host_address: str) -> Json:
    status: Json = {"startTime": dig(pod, "status", "startTime") or moment}
    if host_address:
        status["hostIP"] = host_address
        status["hostIPs"] = [{"ip": host_address}]
    return status


def container_status(
    container: Json, state: Mapping[str, Any], *, ready: bool = False, restarts: int = 0, last: Json | None = None
) -> Json:
    """Return the status of a container of a pod's spec; `last` is the state that it was in before it was restarted."""
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "lastState": last or {},
        "state": dict(state),
    }


def _with_conditions(status: Json, pod: Json, moment: str, *, ready: str, reason: str | None) -> Json:
    kept = [c for c in dig(pod, "status", "conditions") or [] if c["type"] not in KUBELET_CONDITIONS]
    times: Json = {"lastProbeTime": None, "lastTransitionTime": moment}
    says: Json = {"status": ready, **times, **({"reason": reason} if reason else {})}
    initialized = {"type": "Initialized", "status": "True", **times}
    status["conditions"] = [*kept, initialized, {"type": "ContainersReady", **says}, {"type": "Ready", **says}]
    return status


def ready_by_gate(pod: Json, gate: str) -> list[Json] | None:
    """Return the Ready condition that a running pod must get for its readiness gate, as a list; None when it has it."""
    passed = is_condition(pod, gate, "True")
    if is_condition(pod, "Ready", "True" if passed else "False"):
        return None
    moment = now()
    ready: Json = {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
    if passed:
        return [{**ready, "reason": None, "message": None}]
    message = f'corresponding condition of pod readiness gate "{gate}" does not exist or is not "True"'
    return [{**ready, "status": "False", "reason": "ReadinessGatesNotReady", "message": message}]


def write_status(cluster: Cluster, pod: Json, status: Json) -> Json:
    """Write a pod's status, unless the pod has changed meanwhile (409)."""
    meta = pod["metadata"]
    patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
    return cluster.merge(POD, meta["name"], patch, meta["namespace"], subresource="status")


def remove(cluster: Cluster, pod: Json) -> None:
    """Delete a pod for good, as a kubelet does when nothing of it runs any more."""
    meta = pod["metadata"]
    cluster.delete(POD, meta["name"], meta["namespace"], grace=0)


def patch_conditions(cluster: Cluster, pod: Json, conditions: list[Json]) -> Json:
    """Set conditions of a pod, by type; those that others write at the same time stay."""
    patched: Json = cluster.request(
        "PATCH",
        POD.path(pod["metadata"]["namespace"], pod["metadata"]["name"], "status"),
        body={"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": conditions}},
        content_type="application/strategic-merge-patch+json",
    )
    return patched
