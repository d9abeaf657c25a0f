"""Instances and launcher pods that ask for faults."""

from __future__ import annotations

from typing import Any

from harness.embedded.faults import PREFIX

LONG_AGO = "2020-01-01T00:00:00Z"


def vmi(**faults: str) -> dict[str, Any]:
    annotations = {PREFIX + name.replace("_", "-"): text for name, text in faults.items()}
    meta = {
        "name": "m-0",
        "namespace": "cell",
        "uid": "1-2-3",
        "annotations": annotations,
        "creationTimestamp": LONG_AGO,
    }
    running = {"phase": "Running", "phaseTransitionTimestamp": LONG_AGO}
    status = {
        "phase": "Running",
        "nodeName": "n0",
        "activePods": {"p1": "n0"},
        "interfaces": [{"name": "default", "ipAddress": "10.1.1.1"}],
        "phaseTransitionTimestamps": [running],
    }
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta, "status": status}


def pod(**faults: str) -> dict[str, Any]:
    annotations = {PREFIX + name.replace("_", "-"): text for name, text in faults.items()}
    labels = {"vm.kubevirt.io/name": "m-0", "kubevirt.io": "virt-launcher"}
    container = {"name": "compute", "image": "launcher:1", "resources": {"limits": {}, "requests": {"cpu": "1"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": "virt-launcher-m-0", "namespace": "cell", "labels": labels, "annotations": annotations},
        "spec": {"nodeSelector": {}, "containers": [container]},
        "status": {"phase": "Pending"},
    }
