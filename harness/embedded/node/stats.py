"""What this host and its machines take, as a kubelet says it: its Summary API, `GET /stats/summary`.

Covers the memory of the node and, for each launcher pod, the memory of its machine and the blocks of its claims' disks.
Processor time, network and images are not told.
https://kubernetes.io/docs/reference/instrumentation/node-metrics/
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from harness import memory
from harness.embedded.context import Context
from harness.embedded.machines import usage
from harness.embedded.node.guests import Guests
from harness.embedded.node.kubelet import instance_uid, is_launcher
from harness.embedded.vm.instance import claim_name
from harness.embedded.vmi import volumes
from harness.embedded.vmi.launcher import is_consumer
from harness.kube.client import Json
from harness.kube.objects import now
from harness.kube.resources import POD, PV, PVC, VMI

MIB = 2**20
FRESH_SECONDS = 1.0  # pacing: a look reads a few files for each machine


class Stats:
    """Looks at this host's machines when it is asked to."""

    def __init__(self, context: Context, guests: Guests) -> None:
        self._context = context
        self._guests = guests
        self._pods = context.informers.of(POD)
        self._vmis = context.informers.of(VMI)
        self._claims = context.informers.of(PVC)
        self._volumes = context.informers.of(PV)
        self._lock = threading.Lock()
        self._known: tuple[float, Json] | None = None

    def summary(self) -> Json:
        """Return the Summary as it is now, or was a moment ago: each cell of a run asks for all of them."""
        with self._lock:
            moment = time.monotonic()
            if self._known is None or moment - self._known[0] >= FRESH_SECONDS:
                self._known = moment, self._looked()
            return self._known[1]

    def _looked(self) -> Json:
        launchers = (pod for pod in self._pods.list() if is_launcher(pod) and not is_consumer(pod))
        here = (pod for pod in launchers if pod["spec"].get("nodeName") == self._context.node)
        return document(self._context.node, memory.memory_available_mib() * MIB, map(self._pod, here))

    def _pod(self, pod: Json) -> Json:
        meta = pod["metadata"]
        found = self._guests.memory(instance_uid(pod))
        vmis = self._vmis.list(meta["namespace"])
        spec: Json = next((vmi["spec"] for vmi in vmis if vmi["metadata"]["uid"] == instance_uid(pod)), {})
        disks = {
            str(volume["name"]): (name, size)
            for volume in spec.get("volumes") or []
            if (name := claim_name(volume)) and (size := self._disk(volume, meta["namespace"])) is not None
        }
        return of_pod(meta, found, disks)

    def _disk(self, volume: Json, namespace: str) -> int | None:
        claim, found = partial(self._claims.get, namespace), partial(self._volumes.get, "")
        try:
            file: Path = volumes.disk_file(volume, claim, found, self._context.disks)
        except volumes.Unbootable:
            return None
        return usage.disk_bytes(file)


def document(node: str, available: int, pods: Iterable[Json]) -> Json:
    """Return the Summary of a node with so many bytes of memory available."""
    memory_stats = {"time": now(), "availableBytes": available}
    return {"node": {"nodeName": node, "memory": memory_stats}, "pods": list(pods)}


def of_pod(meta: Json, memory_found: usage.Memory | None, disks: dict[str, tuple[str, int]]) -> Json:
    """Return a pod's part. `disks`: of its volumes by name, the claim and the bytes that its disk takes."""
    reference = {key: str(meta[key]) for key in ("name", "namespace", "uid")}
    told: Json = {"podRef": reference, "startTime": str(meta["creationTimestamp"])}
    if memory_found is not None:
        told["memory"] = {
            "time": now(),
            "usageBytes": memory_found.usage,
            "workingSetBytes": memory_found.working_set,
            "rssBytes": memory_found.kept,  # with the kernel's own for it, which a kubelet leaves out
        }
    told["volume"] = [
        {"name": name, "usedBytes": size, "pvcRef": {"name": claim, "namespace": reference["namespace"]}}
        for name, (claim, size) in disks.items()
    ]
    return told
