"""The virt-launcher pod of an instance, as KubeVirt 1.9 renders it; nothing runs in it here, the scheduler reads it."""

from __future__ import annotations

import hashlib
import json

from harness.embedded.vm.instance import LAUNCHER_USER
from harness.embedded.vmi.containers import KILL_AFTER_SECONDS, compute, console_log, grace_seconds, user, volumes_of
from harness.embedded.vmi.overhead import memory_overhead
from harness.kube.client import Json
from harness.kube.objects import dig, owner_reference
from harness.kube.resources import VMI

CREATED_BY = "kubevirt.io/created-by"
CONSUMER = "kubevirt.io/ephemeral-provisioning"
LAUNCHER = {"kubevirt.io": "virt-launcher"}
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own alphabet of generated names


def suffix(uid: str, length: int = 5) -> str:
    """Return an instance's five letters: drawn from its uid, so that a repeated create never makes a twin."""
    digest = int(hashlib.sha256(uid.encode()).hexdigest(), 16)
    return "".join(_LETTERS[digest // len(_LETTERS) ** n % len(_LETTERS)] for n in range(length))


def pod_name(vmi: Json) -> str:
    """Return the name of an instance's launcher pod."""
    return f"virt-launcher-{vmi['metadata']['name']}-{suffix(vmi['metadata']['uid'])}"


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
