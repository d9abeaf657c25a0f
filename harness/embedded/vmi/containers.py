"""The launcher pod's containers and volumes."""

from __future__ import annotations

import hashlib

from harness.embedded.objects import dig
from harness.embedded.vm.instance import LAUNCHER_USER
from harness.embedded.vm.volumes import claim_name
from harness.embedded.vmi.overhead import MIB, cpu_request, guest_memory, in_mib, memory_overhead
from harness.kube.client import Json

IMAGE = "quay.io/kubevirt/virt-launcher:v1.9.0"
DEFAULT_GRACE_SECONDS = 30
KILL_AFTER_SECONDS = 15  # added for the launcher to end its guest, and once more for the pod to end its launcher
QEMU_TIMEOUT_SECONDS = 240  # plus up to 120 s that differ from pod to pod
_DROP_ALL = {"drop": ["ALL"]}
_EMPTY = ("private", "public", "sockets", "virt-bin-share-dir", "libvirt-runtime", "ephemeral-disks")


def compute(vmi: Json) -> Json:
    meta, spec = vmi["metadata"], vmi["spec"]
    memory = guest_memory(spec) + memory_overhead(spec)
    timeout = QEMU_TIMEOUT_SECONDS + int(hashlib.sha256(meta["uid"].encode()).hexdigest(), 16) % 120
    return {
        "name": "compute",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "/usr/bin/virt-launcher-monitor",
            *("--qemu-timeout", f"{timeout}s", "--name", meta["name"], "--uid", meta["uid"]),
            *("--namespace", meta["namespace"], "--kubevirt-share-dir", "/var/run/kubevirt"),
            *("--grace-period-seconds", str(grace_seconds(vmi) + KILL_AFTER_SECONDS), "--hook-sidecars", "0"),
            *("--hypervisor", "kvm", "--run-as-nonroot", "--allow-emulation"),
        ],
        "env": [
            {"name": "XDG_CACHE_HOME", "value": "/var/run/kubevirt-private"},
            {"name": "XDG_CONFIG_HOME", "value": "/var/run/kubevirt-private"},
            {"name": "XDG_RUNTIME_DIR", "value": "/var/run"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
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
        "volumeMounts": _mounts(spec),
    }


def _mounts(spec: Json) -> list[Json]:
    mounts: list[Json] = [
        {"name": "private", "mountPath": "/var/run/kubevirt-private"},
        {"name": "public", "mountPath": "/var/run/kubevirt"},
        {"name": "ephemeral-disks", "mountPath": "/var/run/kubevirt-ephemeral-disks"},
        {"name": "libvirt-runtime", "mountPath": "/var/run/libvirt"},
        {"name": "sockets", "mountPath": "/var/run/kubevirt/sockets"},
    ]
    for volume in spec.get("volumes") or []:
        if claim_name(volume):
            path = f"/var/run/kubevirt-private/vmi-disks/{volume['name']}"
            mounts.append({"name": volume["name"], "mountPath": path})
    mounts.append(
        {"name": "hotplug-disks", "mountPath": "/var/run/kubevirt/hotplug-disks", "mountPropagation": "HostToContainer"}
    )
    return mounts


def volumes_of(spec: Json) -> list[Json]:
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


def console_log(vmi: Json) -> Json:
    return {
        "name": "guest-console-log",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/virt-tail"],
        "args": ["--logfile", f"/var/run/kubevirt-private/{vmi['metadata']['uid']}/virt-serial0-log"],
        "env": [{"name": "VIRT_LAUNCHER_LOG_VERBOSITY", "value": "2"}],
        "restartPolicy": "Always",
        "resources": {"limits": {"cpu": "15m", "memory": "60M"}, "requests": {"cpu": "5m", "memory": "35M"}},
        "securityContext": {
            "runAsUser": LAUNCHER_USER,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": dict(_DROP_ALL),
        },
        "volumeMounts": [{"name": "private", "mountPath": "/var/run/kubevirt-private", "readOnly": True}],
    }


def grace_seconds(vmi: Json) -> int:
    """Return how long a guest may take to shut down."""
    asked = vmi["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if asked is None else int(asked)


def user() -> Json:
    return {"runAsUser": LAUNCHER_USER, "runAsGroup": LAUNCHER_USER, "runAsNonRoot": True}
