"""What KubeVirt's and CDI's operators keep in a cluster where they are deployed and healthy."""

from __future__ import annotations

from typing import Any

from harness.embedded.crds import CDI_VERSION, KUBEVIRT_VERSION

Json = dict[str, Any]
PROVISIONER = "vmatrix.dev/local-disk"
STORAGE_CLASS = "local"
FILESYSTEM_OVERHEAD = "0.06"  # CDI's default: the part of a claim that a file system may take for itself


def namespaces() -> list[Json]:
    """Return the namespaces of the two operators."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("kubevirt", "cdi")]


def storage_class() -> Json:
    """Return the default storage class: raw files on this host, bound at once."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def _deployed(when: str, version: str, version_key: str, looked_at: str, reason: str, **messages: str) -> Json:
    """Return the status of an operator's object; `version_key` and `looked_at` are the operator's own field names."""
    return {
        "phase": "Deployed",
        "conditions": [
            {
                "type": kind,
                "status": "False" if kind in {"Progressing", "Degraded"} else "True",
                "reason": reason,
                "lastTransitionTime": when,
                looked_at: when,
                "message": message,
            }
            for kind, message in messages.items()
        ],
        **dict.fromkeys((f"observed{version_key}", f"target{version_key}", "operatorVersion"), version),
    }


def kubevirt(when: str) -> Json:
    """Return the KubeVirt object with its status; `when` is RFC 3339 with whole seconds."""
    messages = dict.fromkeys(("Available", "Progressing", "Degraded"), "All components are ready.")
    messages["Created"] = "All resources were created."
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
        "spec": {
            "configuration": {
                "developerConfiguration": {},
                "network": {"defaultNetworkInterface": "bridge", "permitBridgeInterfaceOnPodNetwork": True},
            },
        },
        "status": _deployed(
            when, KUBEVIRT_VERSION, "KubeVirtVersion", "lastProbeTime", "AllComponentsReady", **messages
        ),
    }


def cdi(when: str) -> Json:
    """Return the CDI object with its status."""
    messages = {"Available": "Deployment Completed", "Progressing": "", "Degraded": ""}
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "CDI",
        "metadata": {"name": "cdi"},
        "spec": {"config": {"featureGates": ["HonorWaitForFirstConsumer"]}, "imagePullPolicy": "IfNotPresent"},
        "status": _deployed(when, CDI_VERSION, "Version", "lastHeartbeatTime", "DeployCompleted", **messages),
    }


def cdi_config() -> Json:
    """Return the CDIConfig object: what CDI makes of the CDI object's configuration."""
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "CDIConfig",
        "metadata": {"name": "config"},
        "spec": {"featureGates": ["HonorWaitForFirstConsumer"]},
        "status": {
            "filesystemOverhead": {
                "global": FILESYSTEM_OVERHEAD,
                "storageClass": {STORAGE_CLASS: FILESYSTEM_OVERHEAD},
            },
            "scratchSpaceStorageClass": STORAGE_CLASS,
            "preallocation": False,
        },
    }


def storage_profile(storage_class: str) -> Json:
    """Return the profile of a storage class: what a claim gets that leaves its access mode open."""
    properties = [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "StorageProfile",
        "metadata": {"name": storage_class},
        "spec": {"claimPropertySets": properties, "cloneStrategy": "copy"},
        "status": {
            "claimPropertySets": properties,
            "cloneStrategy": "copy",
            "dataImportCronSourceFormat": "pvc",
            "provisioner": PROVISIONER,
            "storageClass": storage_class,
        },
    }
