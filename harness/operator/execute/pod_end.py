"""How an executor ended, as its pod tells: in its own words, or, where it was killed, in the kubelet's."""

from __future__ import annotations

from harness.errors import Blame
from harness.kube.failures import Json
from harness.kube.objects import dig, is_condition
from harness.operator.execute.termination import Termination

AGAIN = "the operation is repeated; `kubectl describe pod` of an executor and its node's log say more"
# What a container waits for that never comes by itself, in the kubelet's words.
NO_IMAGE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerError"}
)


def of_pod(pod: Json | None) -> Termination:
    """Return how an executor ended that is not running any more.

    Args:
        pod: as it was seen last; None where it is gone.
    """
    if pod is None:
        return _infra("the executor's pod is gone, and nobody has seen it end", AGAIN)
    ended = dig(_container(pod), "state", "terminated")
    if ended is not None and (told := Termination.parse(str(ended.get("message") or ""))) is not None:
        return told
    if is_condition(pod, "DisruptionTarget", "True"):
        return _infra("the executor was evicted from its node", AGAIN)
    if ended is not None:
        code, reason = ended.get("exitCode"), ended.get("reason") or "no reason"
        hint = "give its node more memory, or its Job a higher limit" if reason == "OOMKilled" else AGAIN
        return _infra(f"the executor was killed before it could say how it ended: {reason}, status {code}", hint)
    if (why := waits_for(pod)) is not None:
        return Termination("failed", blame=Blame.HARNESS, summary=f"the executor cannot start: {why}", hint=AGAIN)
    reason = dig(pod, "status", "reason") or "no reason"
    return _infra(f"the executor's pod ended before its program did: {reason}", AGAIN)


def waits_for(pod: Json) -> str | None:
    """Return what keeps an executor from being started, for good; None where nothing does."""
    waiting = dig(_container(pod), "state", "waiting")
    if waiting is None or waiting.get("reason") not in NO_IMAGE:
        return None
    return f"{waiting['reason']}: {waiting.get('message') or 'no message'}"


def _container(pod: Json) -> Json:
    statuses = dig(pod, "status", "containerStatuses") or []
    return statuses[0] if statuses else {}


def _infra(summary: str, hint: str) -> Termination:
    return Termination("interrupted", blame=Blame.INFRA, summary=summary, hint=hint)
