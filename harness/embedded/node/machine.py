"""This host as a Node object: what it has, that it is alive."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from harness.embedded.context import Context
from harness.kube.client import Json
from harness.kube.informer import labels_of
from harness.kube.objects import dig, now
from harness.kube.resources import NODE

RESERVED_KIB = 1536 * 1024  # control plane, these controllers, the harness itself
MAX_PODS = 250
RUNTIME = "vmatrix://"  # in place of a container runtime: no container ever runs here
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


def architecture() -> str:
    """Return this host's architecture in Kubernetes' word."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def capacity(state: Path) -> Json:
    """Return what this host has."""
    return {
        "cpu": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_kib(Path('/proc/meminfo').read_text(encoding='ascii'))}Ki",
        "ephemeral-storage": str(shutil.disk_usage(state).total),
        "pods": str(MAX_PODS),
        "devices.kubevirt.io/kvm": "1k",  # machines run on this host's processors: nothing is emulated
        "devices.kubevirt.io/tun": "1k",
        "devices.kubevirt.io/vhost-net": "1k",
    }


def allocatable(of: Json) -> Json:
    """Return what of a capacity launcher pods may ask for."""
    return {**of, "memory": f"{int(of['memory'].removesuffix('Ki')) - RESERVED_KIB}Ki"}


def node_object(name: str) -> Json:
    """Return the Node to create."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": architecture(),
                "kubevirt.io/schedulable": "true",
                "machine-type.node.kubevirt.io/q35": "true",
            },
        },
    }


def node_status(context: Context, old: Json) -> Json:
    """Return the Node's status: capacity, addresses, conditions."""
    moment, total = now(), capacity(context.state)
    before = {c["type"]: c for c in dig(old, "status", "conditions") or []}

    def healthy(kind: str, status: str, reason: str, message: str) -> Json:
        known = before.get(kind) or {}
        since = str(known["lastTransitionTime"]) if known.get("status") == status else moment
        times = {"lastHeartbeatTime": moment, "lastTransitionTime": since}
        return {"type": kind, "status": status, "reason": reason, "message": message, **times}

    return {
        "capacity": total,
        "allocatable": allocatable(total),
        "addresses": [
            {"type": "InternalIP", "address": context.host_address},
            {"type": "Hostname", "address": context.node},
        ],
        "nodeInfo": _node_info(),
        "conditions": [healthy(*row) for row in HEALTHY],
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
        "containerRuntimeVersion": f"{RUNTIME}0",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": architecture(),
    }


def register(context: Context) -> None:
    """Create the Node or bring it up to date."""
    wanted = node_object(context.node)
    labels = wanted["metadata"]["labels"]
    if not labels.items() <= labels_of(context.cluster.ensure(NODE, wanted)).items():
        context.cluster.merge(NODE, context.node, {"metadata": {"labels": labels}})
    report(context)


def report(context: Context) -> None:
    """Write the Node's status."""
    status = node_status(context, context.cluster.get(NODE, context.node) or {})
    context.cluster.merge(NODE, context.node, {"status": status}, subresource="status")
