"""How many pods the scheduler places in a second.

A hundred pods wait for a label that no node has. When a node gets it, all can be placed at once. They never start: each
wants a volume of a ConfigMap that does not exist, for which its node waits before it makes anything.
"""

from __future__ import annotations

import time
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import NODE, POD
from harness.until import Deadline
from harness.validate.facts.cluster import Json
from harness.validate.performance.pods import PodsSeen, pod, remove_pods, wait_for
from harness.validate.remote.objects import container

PODS = 100
LABEL = "vmatrix.dev/performance"
SPARE = 5  # pods that a node keeps room for
BACKOFF = 1.5  # seconds; the scheduler tries a pod again at the earliest after 1 (podInitialBackoffSeconds)


def scheduled_per_second(api: Cluster, node: str, image: str, deadline: Deadline) -> tuple[float, int]:
    """Return how many pods are placed in a second, and of how many that was told.

    Raises:
        TimedOut: a pod is not placed in time.
    """
    names = [f"place-{number}" for number in range(_room(api, node))]
    try:
        with PodsSeen(api, lambda found: bool(found["spec"].get("nodeName"))) as seen:
            for name in names:
                api.create(POD, _pod(name, image))
            wait_for(api, names, _refused, deadline, f"{len(names)} pods to wait for a node")
            time.sleep(BACKOFF)
            began = time.monotonic()
            api.merge(NODE, node, {"metadata": {"labels": {LABEL: "here"}}})
            seen.wait(names, deadline, f"{len(names)} pods to be placed on {node}")
            took = max(seen.at[name] for name in names) - began
    finally:
        api.merge(NODE, node, {"metadata": {"labels": {LABEL: None}}})
        remove_pods(api, deadline)
    return len(names) / took, len(names)


def _room(api: Cluster, node: str) -> int:
    """Return for how many more pods a node has room, of at most PODS."""
    most = int((api.get(NODE, node) or {}).get("status", {}).get("allocatable", {}).get("pods", 0))
    there = len(api.list(POD, fields=f"spec.nodeName={node}").items)
    room = min(PODS, most - there - SPARE)
    assert room > 0, f"node {node} has no room for pods: {there} of {most}"  # noqa: S101 - a finding of the check
    return room


def _refused(found: Json) -> bool:
    conditions = found.get("status", {}).get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)


def _pod(name: str, image: str) -> Json:
    mount = {"name": "never", "mountPath": "/never"}
    own: dict[str, Any] = {
        "nodeSelector": {LABEL: "here"},
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "never", "configMap": {"name": "there-is-none"}}],
    }
    return pod(name, [container("never", image, volumeMounts=[mount])], **own)
