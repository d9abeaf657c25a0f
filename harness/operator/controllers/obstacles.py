"""What keeps an executor's pod from running, in one word for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.client import Json
from harness.kube.objects import condition, deleting, phase
from harness.operator.execute.pod_end import waits_for

NO_NODE, NO_IMAGE = "NoNodeForPods", "ImageNotPulled"


def obstacle_of(pods: Sequence[Json]) -> tuple[str, str] | None:
    """Return reason and message of what the living pod of an executor waits for that may never come; None: nothing."""
    pod = next((pod for pod in pods if phase(pod) == "Pending" and not deleting(pod)), None)
    if pod is None:
        return None
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled["status"] == "False" and scheduled.get("reason") == "Unschedulable":
        return (
            NO_NODE,
            f"no node can run the executor's pod: {scheduled.get('message') or 'the scheduler says no more'}",
        )
    waiting = waits_for(pod)
    return (NO_IMAGE, f"the executor cannot start: {waiting}") if waiting else None
