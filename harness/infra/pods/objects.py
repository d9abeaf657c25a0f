"""The objects of the machine that runs pods: its namespace, its disk, its seed, and itself."""

from __future__ import annotations

from typing import Any

from harness.embedded.machines.names import PODS_NETWORK
from harness.embedded.node.addresses import NETWORK_INDEX
from harness.infra.pods.machine import CPUS, DISK_GIB, NAME, NAMESPACE_NAME, PodsMachine
from harness.kube.resources import DATA_VOLUME, NAMESPACE, SECRET, VM
from harness.model import LABEL_MANAGED, MANAGED_BY

Json = dict[str, Any]
LABELS = {LABEL_MANAGED: MANAGED_BY}
SEED_NAME = f"{NAME}-seed"
CERTIFICATES = "vmatrix.dev/certificates"  # annotation of the seed: the digest of the certificates in it


def namespace() -> Json:
    """Return the machine's namespace, whose network reaches the API."""
    made = NAMESPACE.manifest(NAMESPACE_NAME, "", labels={**LABELS, "pod-security.kubernetes.io/enforce": "privileged"})
    made["metadata"]["annotations"] = {NETWORK_INDEX: str(PODS_NETWORK)}
    return made


def seed(user_data: str, certificates: str) -> Json:
    """Return the Secret with what the machine is told at its first boot; `certificates`: the digest of those in it."""
    made = SECRET.manifest(SEED_NAME, NAMESPACE_NAME, labels=LABELS, stringData={"userdata": user_data})
    made["metadata"]["annotations"] = {CERTIFICATES: certificates}
    return made


def disk(machine: PodsMachine) -> Json:
    """Return the machine's disk, imported from the mirror."""
    source = {"url": f"{machine.mirror.http}/images/{machine.disk.file}", "checksum": f"sha256:{machine.disk.sha256}"}
    spec = {
        "source": {"http": source},
        "storage": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{DISK_GIB}Gi"}}},
    }
    return DATA_VOLUME.manifest(NAME, NAMESPACE_NAME, labels=LABELS, spec=spec)


def virtual_machine(machine: PodsMachine) -> Json:
    """Return the machine. Once: one that dies is seen by its Node, and made anew by whoever asks for it next."""
    volumes: dict[str, Json] = {
        "root": {"dataVolume": {"name": NAME}},
        "seed": {"cloudInitNoCloud": {"secretRef": {"name": SEED_NAME}}},
    }
    domain = {
        "cpu": {"cores": CPUS},
        "memory": {"guest": f"{machine.memory_mib}Mi"},
        "devices": {
            "disks": [{"name": volume, "disk": {"bus": "virtio"}} for volume in volumes],
            "interfaces": [{"name": "default", "bridge": {}}],
        },
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "evictionStrategy": "None",
        "hostname": machine.node,
        "domain": domain,
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": volume, **source} for volume, source in volumes.items()],
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return VM.manifest(NAME, NAMESPACE_NAME, labels=LABELS, spec={"runStrategy": "Once", "template": template})
