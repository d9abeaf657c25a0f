"""How long pods take from their creation until a watch shows that their containers have started.

As upstream's pod startup latency: stateless pods whose images are there already, as a watch sees them. The load: sixty
pods on one node, ten at a time, created as fast as the API takes them; the next ten when these are gone.
"""

from __future__ import annotations

import time

from harness.kube import Cluster
from harness.kube.resources import POD
from harness.until import Deadline
from harness.validate.performance.noise import quantile
from harness.validate.performance.pods import PodsSeen, pod, remove_pods, started, wait_for
from harness.validate.remote.objects import container

PODS, AT_ONCE = 60, 10
HOSTNAME = "kubernetes.io/hostname"


def pod_starts(api: Cluster, node: str, image: str, deadline: Deadline) -> list[float]:
    """Return the seconds that each pod took, in order of their size.

    Args:
        image: that does nothing when it is called with `pause`.

    Raises:
        TimedOut: a pod does not start in time.
    """
    api.create(POD, _pod("warm-0", node, image))  # so that the image is there
    wait_for(api, ["warm-0"], started, deadline, f"a first pod on {node} to start")
    remove_pods(api, deadline)
    took: list[float] = []
    with PodsSeen(api, started) as seen:
        for first in range(0, PODS, AT_ONCE):
            created: dict[str, float] = {}
            for number in range(first, first + AT_ONCE):
                name = f"start-{number}"
                created[name] = time.monotonic()
                api.create(POD, _pod(name, node, image))
            seen.wait(list(created), deadline, f"{AT_ONCE} pods on {node} to start")
            took += [seen.at[name] - at for name, at in created.items()]
            remove_pods(api, deadline)
    return sorted(took)


def p50_p99(took: list[float]) -> tuple[float, float]:
    """Return the two quantiles of ordered seconds."""
    return quantile(took, 0.5), quantile(took, 0.99)


def _pod(name: str, node: str, image: str) -> dict[str, object]:
    """Return a pod that the scheduler puts on a node: its work is part of a start."""
    everywhere = [{"operator": "Exists"}]
    pause = [container("pause", image, args=["pause"])]
    return pod(name, pause, nodeSelector={HOSTNAME: node}, tolerations=everywhere)
