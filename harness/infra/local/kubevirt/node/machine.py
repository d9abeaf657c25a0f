"""This host as a Node object: what it has, that it is alive."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import VmatrixError
from harness.infra.local.kubevirt.context import Context
from harness.infra.local.kubevirt.objects import dig, now
from harness.kube.client import ApiFailure, Json
from harness.kube.resources import LEASE, NODE

log = logging.getLogger(__name__)
Indices = Callable[[], set[int]]
HEARTBEAT_SECONDS = 10
LEASE_SECONDS = 40
LEASES = "kube-node-lease"
RESERVED_KIB = 1536 * 1024  # control plane, these controllers, the harness itself
MAX_PODS = 250
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def memory_kib(meminfo: str) -> int:
    """Return MemTotal (KiB) of a /proc/meminfo.

    Raises:
        ValueError: it has no such line.
    """
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    raise ValueError("no MemTotal in /proc/meminfo")


def capacity(state: Path) -> Json:
    """Return what this host has."""
    return {
        "cpu": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_kib(Path('/proc/meminfo').read_text(encoding='ascii'))}Ki",
        "ephemeral-storage": str(shutil.disk_usage(state).total),
        "pods": str(MAX_PODS),
        "devices.kubevirt.io/tun": "1k",
        "devices.kubevirt.io/vhost-net": "1k",
    }


def allocatable(of: Json) -> Json:
    """Return what of a capacity launcher pods may ask for."""
    return {**of, "memory": f"{int(of['memory'].removesuffix('Ki')) - RESERVED_KIB}Ki"}


def node_object(name: str) -> Json:
    """Return the Node to create."""
    arch = ARCHITECTURES.get(platform.machine(), platform.machine())
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": arch,
                "kubevirt.io/schedulable": "true",
                "machine-type.node.kubevirt.io/q35": "true",
            },
        },
    }


def node_status(context: Context, old: Json) -> Json:
    """Return the Node's status: capacity, addresses, conditions."""
    moment, total = now(), capacity(context.state)
    before = {c["type"]: c for c in dig(old, "status", "conditions") or []}

    def since(kind: str, status: str) -> str:
        known = before.get(kind) or {}
        return str(known["lastTransitionTime"]) if known.get("status") == status else moment

    return {
        "capacity": total,
        "allocatable": allocatable(total),
        "addresses": [
            {"type": "InternalIP", "address": context.host_address},
            {"type": "Hostname", "address": context.node},
        ],
        "nodeInfo": _node_info(),
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": since(kind, status),
            }
            for kind, status, reason, message in HEALTHY
        ],
    }


def _node_info() -> Json:
    def read(path: str) -> str:
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except OSError:
            return ""

    names = dict(line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line)
    return {
        "machineID": read("/etc/machine-id"),
        "systemUUID": "",
        "bootID": read("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": names.get("PRETTY_NAME", "").strip('"'),
        "containerRuntimeVersion": "vmatrix://0",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
    }


def register(context: Context) -> None:
    """Create the Node or bring it up to date, and say that it is alive."""
    wanted = node_object(context.node)
    found = context.cluster.ensure(NODE, wanted)
    if not wanted["metadata"]["labels"].items() <= (found["metadata"].get("labels") or {}).items():
        found = context.cluster.merge(NODE, context.node, {"metadata": {"labels": wanted["metadata"]["labels"]}})
    beat(context, found)
    report(context)


def report(context: Context) -> None:
    """Write the Node's status."""
    old = context.cluster.get(NODE, context.node) or {}
    patch = {"status": node_status(context, old)}
    context.cluster.merge(NODE, context.node, patch, subresource="status")


def beat(context: Context, node: Json | None = None) -> None:
    """Renew the Node's lease, making it when it is not there."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        context.cluster.merge(LEASE, context.node, {"spec": {"renewTime": moment}}, LEASES)
        return
    except ApiFailure as failure:
        if failure.code != 404:
            raise
    owner = node or context.cluster.get(NODE, context.node)
    if owner is None:
        return
    reference = {"apiVersion": "v1", "kind": "Node", "name": context.node, "uid": owner["metadata"]["uid"]}
    context.cluster.ensure(
        LEASE,
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": context.node, "namespace": LEASES, "ownerReferences": [reference]},
            "spec": {"holderIdentity": context.node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": moment},
        },
    )


def start_heartbeat(context: Context) -> None:
    """Renew the lease from now on, on a daemon thread, until the context stops."""

    def run() -> None:
        while not context.stopping.wait(HEARTBEAT_SECONDS):
            try:
                beat(context)
            except VmatrixError as error:
                log.warning("heartbeat of node %s failed: %s", context.node, error)

    threading.Thread(target=run, name="heartbeat", daemon=True).start()
