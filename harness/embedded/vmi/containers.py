"""The launcher pod's containers and volumes."""

from __future__ import annotations

from harness.embedded.vm.instance import LAUNCHER_USER
from harness.embedded.vm.volumes import claim_name
from harness.embedded.vmi.overhead import MIB, cpu_request, in_mib, memory_overhead, requested_memory
from harness.kube.client import Json
from harness.kube.objects import dig

IMAGE = "quay.io/kubevirt/virt-launcher:v1.9.0"
DEFAULT_GRACE_SECONDS = 30  # KubeVirt's default
KILL_AFTER_SECONDS = 15  # added for the launcher to end its guest, and once more for the pod to end its launcher
_DROP_ALL = {"drop": ["ALL"]}
_EMPTY = ("private", "public", "sockets", "virt-bin-share-dir", "libvirt-runtime", "ephemeral-disks")


def compute(vmi: Json) -> Json:
    """Return the container that holds the guest: what it asks of the scheduler and of the node's admission."""
    spec = vmi["spec"]
    memory = requested_memory(spec) + memory_overhead(spec)
    return {
        "name": "compute",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"devices.kubevirt.io/tun": "1"},
            "requests": {
                "cpu": cpu_request(spec),
                "memory": in_mib(max(memory, MIB)),
                "ephemeral-storage": "50M",
                "devices.kubevirt.io/tun": "1",
            },
        },
        "securityContext": {
            **user(),
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], **_DROP_ALL},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def volumes_of(spec: Json) -> list[Json]:
    """Return the volumes: claims and secrets that the pod waits for, and what KubeVirt adds."""
    found: list[Json] = [{"name": name, "emptyDir": {}} for name in _EMPTY]
    for volume in spec.get("volumes") or []:
        claim = claim_name(volume)
        if claim:
            found.append({"name": volume["name"], "persistentVolumeClaim": {"claimName": claim}})
        for kind in ("cloudInitNoCloud", "cloudInitConfigDrive"):
            for reference, ending in (("secretRef", "udata"), ("networkDataSecretRef", "ndata")):
                secret = dig(volume, kind, reference, "name")
                if secret:
                    found.append({"name": f"{volume['name']}-{ending}", "secret": {"secretName": secret}})
    found.append({"name": "hotplug-disks", "emptyDir": {}})
    return found


def console_log() -> Json:
    """Return the container whose log is the guest's console."""
    return {
        "name": "guest-console-log",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "resources": {"limits": {"cpu": "15m", "memory": "60M"}, "requests": {"cpu": "5m", "memory": "35M"}},
        "securityContext": {
            "runAsUser": LAUNCHER_USER,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": dict(_DROP_ALL),
        },
    }


def grace_seconds(vmi: Json) -> int:
    """Return how long a guest may take to shut down."""
    asked = vmi["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if asked is None else int(asked)


def user() -> Json:
    """Return the user that a launcher runs as."""
    return {"runAsUser": LAUNCHER_USER, "runAsGroup": LAUNCHER_USER, "runAsNonRoot": True}
