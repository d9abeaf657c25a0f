"""The virt-launcher pod of an instance, as KubeVirt 1.9 renders it: containers, volumes, memory overhead.

Nothing runs in it here: the scheduler, quotas and admission read it.
"""

from __future__ import annotations

import hashlib
import json
import math

from harness.embedded.vm.instance import LAUNCHER_USER, claim_name
from harness.kube.client import Json
from harness.kube.objects import dig, owner_reference, quantity
from harness.kube.resources import VMI

MIB = 1024 * 1024
# KubeVirt 1.9, GetMemoryOverhead: monitor 25, launcher 100, virtlogd 25, virtqemud 40, qemu 30, IO threads 8 (MiB).
FIXED_MIB = 228
VCPU_MIB = 8
GRAPHICS_MIB = 32
PAGE_TABLE_SHARE = 512
CPU_ALLOCATION_RATIO = 10
IMAGE = "quay.io/kubevirt/virt-launcher:v1.9.0"
DEFAULT_GRACE_SECONDS = 30  # KubeVirt's default
KILL_AFTER_SECONDS = 15  # added for the launcher to end its guest, and once more for the pod to end its launcher
_DROP_ALL = {"drop": ["ALL"]}
_EMPTY = ("private", "public", "sockets", "virt-bin-share-dir", "libvirt-runtime", "ephemeral-disks")
CREATED_BY = "kubevirt.io/created-by"
CONSUMER = "kubevirt.io/ephemeral-provisioning"
LAUNCHER = {"kubevirt.io": "virt-launcher"}
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own alphabet of generated names


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
            "securityContext": {**user(), "fsGroup": LAUNCHER_USER},
            "nodeSelector": {
                **(spec.get("nodeSelector") or {}),
                "kubernetes.io/arch": arch,
                "kubevirt.io/schedulable": "true",
                f"machine-type.node.kubevirt.io/{machine}": "true",
            },
            "affinity": spec.get("affinity") or _affinity(),
            "readinessGates": [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}],
            "containers": [compute(vmi)],
            "initContainers": [console_log()],
            "volumes": volumes_of(spec),
            **{
                key: spec[key]
                for key in ("tolerations", "priorityClassName", "schedulerName", "topologySpreadConstraints")
                if spec.get(key)
            },
        },
    }


def pod_name(vmi: Json) -> str:
    """Return the name of an instance's launcher pod."""
    return f"virt-launcher-{vmi['metadata']['name']}-{suffix(vmi['metadata']['uid'])}"


def suffix(uid: str, length: int = 5) -> str:
    """Return an instance's five letters: drawn from its uid, so that a repeated create never makes a twin."""
    digest = int(hashlib.sha256(uid.encode()).hexdigest(), 16)
    return "".join(_LETTERS[digest // len(_LETTERS) ** n % len(_LETTERS)] for n in range(length))


def is_consumer(pod: Json) -> bool:
    """Tell whether a pod of an instance is only there for its claims to be bound."""
    return (pod["metadata"].get("annotations") or {}).get(CONSUMER) == "true"


def consumer_pod(vmi: Json) -> Json:
    """Return a pod that needs what the launcher will need, and ends at once: the first consumer of its claims.

    KubeVirt makes it for claims that wait for one, so that the scheduler chooses where they are bound; what fills them
    must not find them in a launcher's use.
    """
    pod = launcher_pod(vmi)
    meta, spec = pod["metadata"], pod["spec"]
    meta["name"] = f"virt-launcher-{vmi['metadata']['name']}-{suffix(vmi['metadata']['uid'] + CONSUMER)}"
    meta["annotations"][CONSUMER] = "true"
    spec["containers"][0]["command"] = ["/bin/bash", "-c", "echo", "bound PVCs"]
    del spec["initContainers"], spec["readinessGates"]
    return pod


def _annotations(vmi: Json) -> Json:
    meta = vmi["metadata"]
    freezer = ["/usr/bin/virt-freezer", "--name", meta["name"], "--namespace", meta["namespace"]]
    return {
        **{k: v for k, v in (meta.get("annotations") or {}).items() if not k.endswith("-observed-api-version")},
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


def volumes_of(spec: Json) -> list[Json]:
    """Return the volumes: claims and secrets that the pod waits for, and what KubeVirt adds."""
    volumes: list[Json] = [{"name": name, "emptyDir": {}} for name in _EMPTY]
    for volume in spec.get("volumes") or []:
        claim = claim_name(volume)
        if claim:
            volumes.append({"name": volume["name"], "persistentVolumeClaim": {"claimName": claim}})
        for kind in ("cloudInitNoCloud", "cloudInitConfigDrive"):
            for reference, ending in (("secretRef", "udata"), ("networkDataSecretRef", "ndata")):
                secret = dig(volume, kind, reference, "name")
                if secret:
                    volumes.append({"name": f"{volume['name']}-{ending}", "secret": {"secretName": secret}})
    volumes.append({"name": "hotplug-disks", "emptyDir": {}})
    return volumes


def grace_seconds(vmi: Json) -> int:
    """Return how long a guest may take to shut down."""
    asked = vmi["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if asked is None else int(asked)


def user() -> Json:
    """Return the user that a launcher runs as."""
    return {"runAsUser": LAUNCHER_USER, "runAsGroup": LAUNCHER_USER, "runAsNonRoot": True}


def vcpus(spec: Json) -> int:
    """Return an instance's virtual CPUs: sockets x cores x threads, else what its resources say, else 1."""
    cpu = dig(spec, "domain", "cpu") or {}
    shape = [int(cpu.get(part) or 0) for part in ("sockets", "cores", "threads")]
    if any(shape):
        return math.prod(part or 1 for part in shape)
    for kind in ("limits", "requests"):
        asked = dig(spec, "domain", "resources", kind, "cpu")
        if asked:
            return max(1, math.ceil(quantity(asked)))
    return 1


def guest_memory(spec: Json) -> int:
    """Return an instance's memory in bytes."""
    for path in (("memory", "guest"), ("resources", "requests", "memory"), ("resources", "limits", "memory")):
        asked = dig(spec, "domain", *path)
        if asked:
            return int(quantity(asked))
    return 0


def requested_memory(spec: Json) -> int:
    """Return the bytes that a launcher asks for its guest: what the instance requests, else all of its memory."""
    asked = dig(spec, "domain", "resources", "requests", "memory")
    return int(quantity(asked)) if asked else guest_memory(spec)


def memory_overhead(spec: Json) -> int:
    """Return the bytes that KubeVirt asks for the launcher's processes; none where the instance leaves them out."""
    if dig(spec, "domain", "resources", "overcommitGuestOverhead"):
        return 0
    requested = dig(spec, "domain", "resources", "requests", "memory")
    page_tables = int(quantity(requested)) // PAGE_TABLE_SHARE if requested else 0
    graphics = 0 if dig(spec, "domain", "devices", "autoattachGraphicsDevice") is False else GRAPHICS_MIB
    return page_tables + (FIXED_MIB + VCPU_MIB * vcpus(spec) + graphics) * MIB


def in_mib(amount: int) -> str:
    """Write bytes as a quantity: in Mi when they are whole, else as a number."""
    return f"{amount // MIB}Mi" if amount % MIB == 0 else str(amount)


def cpu_request(spec: Json) -> str:
    """Return the CPU share that a launcher asks for."""
    return f"{1000 * vcpus(spec) // CPU_ALLOCATION_RATIO}m"
