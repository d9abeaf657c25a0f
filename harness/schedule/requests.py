"""What the scheduler counts for a pod, as its specification tells it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from harness.infra.cluster.nodes import MIB, quantity
from harness.schedule.demand import PodRequest


def request_of(spec: Mapping[str, Any]) -> PodRequest:
    """Return what the scheduler counts for a pod.

    That is the sum of its containers and sidecars or, where that is more, an init container beside the sidecars started
    before it; the pod's own `resources` override both; its runtime class's overhead is added.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    memory, cpu = (_effective(spec, name) for name in ("memory", "cpu"))
    return PodRequest(memory_mib=math.ceil(memory / MIB), millicpus=math.ceil(cpu * 1000))


def _effective(spec: Mapping[str, Any], name: str) -> Decimal:
    sidecars = highest = Decimal(0)
    for container in spec.get("initContainers") or []:
        asked = _asked(container, name)
        highest = max(highest, sidecars + asked)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
    together = sidecars + sum((_asked(c, name) for c in spec.get("containers") or []), Decimal(0))
    own = ((spec.get("resources") or {}).get("requests") or {}).get(name)
    counted = quantity(str(own)) if own is not None else max(highest, together)
    return counted + quantity(str((spec.get("overhead") or {}).get(name, "0")))


def _asked(container: Mapping[str, Any], name: str) -> Decimal:
    return quantity(str(((container.get("resources") or {}).get("requests") or {}).get(name, "0")))
