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
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubevirt"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cdi"}},
    ]


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


def _conditions(when: str, reason: str, **states: str) -> list[Json]:
    return [
        {
            "type": kind,
            "status": state,
            "reason": reason,
            "lastTransitionTime": when,
            "lastHeartbeatTime": when,
            "message": message,
        }
        for kind, (state, message) in {k: v.partition(" ")[::2] for k, v in states.items()}.items()
    ]


def _times_named(conditions: list[Json]) -> list[Json]:
    """Rename the heartbeat as KubeVirt's own conditions have it."""
    return [
        {("lastProbeTime" if key == "lastHeartbeatTime" else key): value for key, value in condition.items()}
        for condition in conditions
    ]


def kubevirt(when: str) -> Json:
    """Return the KubeVirt object with its status; `when` is RFC 3339 with whole seconds."""
    deployed = _conditions(
        when,
        "AllComponentsReady",
        Available="True All components are ready.",
        Progressing="False All components are ready.",
        Degraded="False All components are ready.",
        Created="True All resources were created.",
    )
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
        "spec": {
            "configuration": {
                "developerConfiguration": {"useEmulation": True},
                "network": {"defaultNetworkInterface": "bridge", "permitBridgeInterfaceOnPodNetwork": True},
            },
        },
        "status": {
            "phase": "Deployed",
            "conditions": _times_named(deployed),
            "observedKubeVirtVersion": KUBEVIRT_VERSION,
            "targetKubeVirtVersion": KUBEVIRT_VERSION,
            "operatorVersion": KUBEVIRT_VERSION,
        },
    }


def cdi(when: str) -> Json:
    """Return the CDI object with its status."""
    deployed = _conditions(
        when,
        "DeployCompleted",
        Available="True Deployment Completed",
        Progressing="False ",
        Degraded="False ",
    )
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "CDI",
        "metadata": {"name": "cdi"},
        "spec": {"config": {"featureGates": ["HonorWaitForFirstConsumer"]}, "imagePullPolicy": "IfNotPresent"},
        "status": {
            "phase": "Deployed",
            "conditions": deployed,
            "observedVersion": CDI_VERSION,
            "operatorVersion": CDI_VERSION,
            "targetVersion": CDI_VERSION,
        },
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
