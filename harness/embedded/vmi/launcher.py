"""The virt-launcher pod of an instance, as KubeVirt 1.9 renders it; nothing runs in it here, the scheduler reads it."""

from __future__ import annotations

import hashlib
import json

from harness.embedded.objects import dig, owner_reference
from harness.embedded.vm.instance import LAUNCHER_USER
from harness.embedded.vm.volumes import claim_name
from harness.embedded.vmi.overhead import MIB, cpu_request, guest_memory, in_mib, memory_overhead
from harness.kube.client import Json
from harness.kube.resources import VMI

IMAGE = "quay.io/kubevirt/virt-launcher:v1.9.0"
CREATED_BY = "kubevirt.io/created-by"
CONSUMER = "kubevirt.io/ephemeral-provisioning"
LAUNCHER = {"kubevirt.io": "virt-launcher"}
DEFAULT_GRACE_SECONDS = 30
KILL_AFTER_SECONDS = 15  # added for the launcher to end its guest, and once more for the pod to end its launcher
QEMU_TIMEOUT_SECONDS = 240  # plus up to 120 s that differ from pod to pod
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own alphabet of generated names
_DROP_ALL = {"drop": ["ALL"]}
_EMPTY = ("private", "public", "sockets", "virt-bin-share-dir", "libvirt-runtime", "ephemeral-disks")


def suffix(uid: str, length: int = 5) -> str:
    """Return an instance's five letters: drawn from its uid, so that a repeated create never makes a twin."""
    digest = int(hashlib.sha256(uid.encode()).hexdigest(), 16)
    letters = []
    for _ in range(length):
        digest, rest = divmod(digest, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def pod_name(vmi: Json) -> str:
    """Return the name of an instance's launcher pod."""
    return f"virt-launcher-{vmi['metadata']['name']}-{suffix(vmi['metadata']['uid'])}"


def grace_seconds(vmi: Json) -> int:
    """Return how long a guest may take to shut down."""
    asked = vmi["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if asked is None else int(asked)


def launcher_pod(vmi: Json) -> Json:
    """Return the pod to create for an instance."""
    meta, spec = vmi["metadata"], vmi["spec"]
    machine = str(dig(spec, "domain", "machine", "type") or "q35")
    arch = str(spec.get("architecture") or "amd64")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(vmi),
            "generateName": f"virt-launcher-{meta['name']}-",
            "namespace": meta["namespace"],
            "labels": {
                **(meta.get("labels") or {}),
                **LAUNCHER,
                CREATED_BY: meta["uid"],
                "vm.kubevirt.io/name": meta["name"],
                "vmi.kubevirt.io/id": meta["name"],
            },
            "annotations": _annotations(vmi),
            "ownerReferences": [owner_reference(vmi, VMI)],
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": str(spec.get("hostname") or meta["name"])[:63],
            "terminationGracePeriodSeconds": grace_seconds(vmi) + 2 * KILL_AFTER_SECONDS,
            "securityContext": {**_user(), "fsGroup": LAUNCHER_USER},
            "nodeSelector": {
                **(spec.get("nodeSelector") or {}),
                "kubernetes.io/arch": arch,
                "kubevirt.io/schedulable": "true",
                f"machine-type.node.kubevirt.io/{machine}": "true",
            },
            "affinity": spec.get("affinity") or _affinity(),
            "readinessGates": [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}],
            "containers": [_compute(vmi)],
            "initContainers": [_console_log(vmi)],
            "volumes": _volumes(spec),
            **{
                key: spec[key]
                for key in ("tolerations", "priorityClassName", "schedulerName", "topologySpreadConstraints")
                if spec.get(key)
            },
        },
    }


def is_consumer(pod: Json) -> bool:
    """Tell whether a pod of an instance is only there for its claims to be bound."""
    return (pod["metadata"].get("annotations") or {}).get(CONSUMER) == "true"


def consumer_pod(vmi: Json) -> Json:
    """Return a pod that needs what the launcher will need, and ends at once: the first consumer of its claims.

    KubeVirt makes it for claims that wait for one, since what fills them must not find them in a launcher's use.
    """
    pod = launcher_pod(vmi)
    meta = pod["metadata"]
    meta["name"] = f"virt-launcher-{vmi['metadata']['name']}-{suffix(vmi['metadata']['uid'] + CONSUMER)}"
    meta["annotations"] = {**meta["annotations"], CONSUMER: "true"}
    compute = {**pod["spec"]["containers"][0], "command": ["/bin/bash", "-c", "echo", "bound PVCs"]}
    pod["spec"]["containers"] = [compute]
    del pod["spec"]["initContainers"], pod["spec"]["readinessGates"]
    return pod


def _user() -> Json:
    return {"runAsUser": LAUNCHER_USER, "runAsGroup": LAUNCHER_USER, "runAsNonRoot": True}


def _annotations(vmi: Json) -> Json:
    meta = vmi["metadata"]
    of_the_instance = {
        k: v for k, v in (meta.get("annotations") or {}).items() if not k.endswith("-observed-api-version")
    }
    freezer = ["/usr/bin/virt-freezer", "--name", meta["name"], "--namespace", meta["namespace"]]
    return {
        **of_the_instance,
        "descheduler.alpha.kubernetes.io/request-evict-only": "",
        "kubectl.kubernetes.io/default-container": "compute",
        "kubevirt.io/domain": meta["name"],
        "kubevirt.io/memory-overhead-bytes": str(memory_overhead(vmi["spec"])),
        "kubevirt.io/migrationTransportUnix": "true",
        "pre.hook.backup.velero.io/container": "compute",
        "pre.hook.backup.velero.io/command": json.dumps([freezer[0], "--freeze", *freezer[1:]]),
        "pre.hook.backup.velero.io/timeout": "60s",
        "post.hook.backup.velero.io/container": "compute",
        "post.hook.backup.velero.io/command": json.dumps([freezer[0], "--unfreeze", *freezer[1:]]),
    }


def _affinity() -> Json:
    obsolete = {"key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [obsolete]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _compute(vmi: Json) -> Json:
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
            **_user(),
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


def _volumes(spec: Json) -> list[Json]:
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


def _console_log(vmi: Json) -> Json:
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
