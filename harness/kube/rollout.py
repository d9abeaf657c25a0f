"""Whether what an object stands for has come to be, as `kubectl rollout status` and `kubectl wait` tell it."""

from __future__ import annotations

from collections.abc import Callable

from harness.kube.failures import Json
from harness.kube.objects import condition, deleting, dig, is_condition
from harness.kube.resources import API_SERVICE, CRD, DAEMON_SET, DEPLOYMENT, JOB, Resource

STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet")


def waits_for(obj: Json) -> str:
    """Return what an object still waits for, or failed with; "" where it has come to be."""
    if deleting(obj):
        return "it is being deleted"
    look = _LOOKS.get((str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"])))
    return look(obj) if look is not None else ""


def _deployment(obj: Json) -> str:
    if _unseen(obj):
        return "its controller has not seen it yet"
    if dig(obj, "status", "conditions") and is_condition(obj, "Progressing", "False", "ProgressDeadlineExceeded"):
        return str((condition(obj, "Progressing") or {}).get("message"))
    replicas, old = _wanted(obj), _number(obj, "replicas") - _number(obj, "updatedReplicas")
    if old > 0:
        return f"{old} old replicas are still there"
    available = _number(obj, "availableReplicas")
    return (
        ""
        if min(available, _number(obj, "updatedReplicas")) >= replicas
        else f"{available} of {replicas} are available"
    )


def _daemon_set(obj: Json) -> str:
    if _unseen(obj):
        return "its controller has not seen it yet"
    scheduled = _number(obj, "desiredNumberScheduled")
    done = min(_number(obj, "updatedNumberScheduled"), _number(obj, "numberAvailable"))
    return "" if done >= scheduled or _on_delete(obj) else f"{done} of {scheduled} are available"


def _stateful_set(obj: Json) -> str:
    if _unseen(obj):
        return "its controller has not seen it yet"
    replicas, ready, updated = _wanted(obj), _number(obj, "readyReplicas"), _number(obj, "updatedReplicas")
    if ready < replicas:
        return f"{ready} of {replicas} are ready"
    left = replicas - int(dig(obj, "spec", "updateStrategy", "rollingUpdate", "partition") or 0)
    return "" if updated >= left or _on_delete(obj) else f"{updated} of {left} are updated"


def _job(obj: Json) -> str:
    failed = condition(obj, "Failed") or {}
    if failed.get("status") == "True":
        return f"it failed: {failed.get('message') or failed.get('reason')}"
    return "" if is_condition(obj, "Complete", "True") or dig(obj, "spec", "suspend") else "it has not completed"


def _definition(obj: Json) -> str:
    return "" if is_condition(obj, "Established", "True") else "it is not established"


def _api_service(obj: Json) -> str:
    available = condition(obj, "Available") or {}
    return (
        ""
        if available.get("status") == "True"
        else f"not available: {available.get('message') or 'nobody asked it yet'}"
    )


def _unseen(obj: Json) -> bool:
    return _number(obj, "observedGeneration") < int(obj["metadata"].get("generation") or 0)


def _on_delete(obj: Json) -> bool:
    return bool(dig(obj, "spec", "updateStrategy", "type") == "OnDelete")


def _wanted(obj: Json) -> int:
    replicas = dig(obj, "spec", "replicas")
    return 1 if replicas is None else int(replicas)


def _number(obj: Json, name: str) -> int:
    return int(dig(obj, "status", name) or 0)


_LOOKS: dict[tuple[str, str], Callable[[Json], str]] = {
    (kind.group, kind.kind): look
    for kind, look in (
        (DEPLOYMENT, _deployment),
        (DAEMON_SET, _daemon_set),
        (STATEFUL_SET, _stateful_set),
        (JOB, _job),
        (CRD, _definition),
        (API_SERVICE, _api_service),
    )
}
