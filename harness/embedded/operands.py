"""Operands: what KubeVirt's and CDI's operators keep in a cluster where they are deployed and healthy.

With the roles that they add, so that the built-in `edit` is enough for a job's namespace: aggregated into `admin`,
`edit` and `view`; two more are bound to every authenticated user. Rules after KubeVirt's and CDI's own
(pkg/virt-operator/resource/generate/rbac/cluster.go, pkg/operator/resources/cluster/rbac.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.embedded.crds import CDI_VERSION, KUBEVIRT_VERSION

Json = dict[str, Any]
PROVISIONER = "vmatrix.dev/local-disk"
STORAGE_CLASS = "local"
FILESYSTEM_OVERHEAD = "0.06"  # CDI's default: the part of a claim that a file system may take for itself
RBAC = "rbac.authorization.k8s.io"
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch", "update")
MACHINES = ("virtualmachines", "virtualmachineinstances")
VIEWS = ("guestosinfo", "filesystemlist", "userlist", "objectgraph")
CONSOLES = ("console", "vnc", "vnc/screenshot", "portforward", "usbredir")
HOLDS = ("pause", "unpause", "freeze", "unfreeze", "softreboot", "reset", "addvolume", "removevolume")
SWITCHES = ("start", "stop", "restart", "addvolume", "removevolume", "memorydump", "removememorydump")
CDI_KINDS = ("datavolumes", "datasources")
SUBRESOURCES = "subresources.kubevirt.io"
AGGREGATED = ("admin", "edit", "view")
FOR_EVERYBODY = ("kubevirt.io:default", "cdi.kubevirt.io:config-reader")


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


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _instance(subresources: Sequence[str]) -> list[str]:
    return [f"virtualmachineinstances/{name}" for name in subresources]


_VIEWING = _rule(
    SUBRESOURCES, [*_instance(VIEWS), "virtualmachines/expand-spec", "virtualmachines/objectgraph"], ("get",)
)
_REACHING = _rule(SUBRESOURCES, ["virtualmachines/portforward", *_instance(CONSOLES)], ("get",))
_SWITCHING = _rule(
    SUBRESOURCES, [*(f"virtualmachines/{name}" for name in SWITCHES), *_instance(HOLDS), "expand-vm-spec"], ("update",)
)
_USING = [_VIEWING, _REACHING, _SWITCHING]
_DISKS = [
    _rule("cdi.kubevirt.io", CDI_KINDS, ("*",)),
    _rule("cdi.kubevirt.io", ("datavolumes/source",), ("create",)),
]
CLUSTER_ROLES: dict[str, list[Json]] = {
    "kubevirt.io:admin": [_rule("kubevirt.io", MACHINES, (*READ, *WRITE, "deletecollection")), *_USING],
    "kubevirt.io:edit": [_rule("kubevirt.io", MACHINES, (*READ, *WRITE)), *_USING],
    "kubevirt.io:view": [_rule("kubevirt.io", MACHINES, READ), _VIEWING],
    "kubevirt.io:default": [
        _rule("kubevirt.io", ("kubevirts",), ("get", "list")),
        _rule(SUBRESOURCES, ("version", "guestfs"), ("get", "list")),
    ],
    "cdi.kubevirt.io:admin": _DISKS,
    "cdi.kubevirt.io:edit": _DISKS,
    "cdi.kubevirt.io:view": [_rule("cdi.kubevirt.io", CDI_KINDS, READ)],
    "cdi.kubevirt.io:config-reader": [_rule("cdi.kubevirt.io", ("cdiconfigs", "storageprofiles"), READ)],
}


def cluster_roles() -> list[Json]:
    """Return the ClusterRoles."""
    return [_role(name, rules) for name, rules in CLUSTER_ROLES.items()]


def _role(name: str, rules: list[Json]) -> Json:
    metadata: Json = {"name": name}
    level = name.rpartition(":")[2]
    if level in AGGREGATED:
        metadata["labels"] = {f"{RBAC}/aggregate-to-{level}": "true"}
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def bindings() -> list[Json]:
    """Return the ClusterRoleBindings of what every authenticated user may do."""
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}],
        }
        for name in FOR_EVERYBODY
    ]
