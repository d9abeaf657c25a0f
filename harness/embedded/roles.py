"""The roles that KubeVirt and CDI add to a cluster, so that the built-in `edit` is enough for a job's namespace.

Aggregated into `admin`, `edit` and `view`; two more are bound to every authenticated user. Rules after KubeVirt's and
CDI's own (pkg/virt-operator/resource/generate/rbac/cluster.go, pkg/operator/resources/cluster/rbac.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch", "update")
MACHINES = ("virtualmachines", "virtualmachineinstances")
VIEWS = ("guestosinfo", "filesystemlist", "userlist", "objectgraph")
CONSOLES = ("console", "vnc", "vnc/screenshot", "portforward", "usbredir")
HOLDS = ("pause", "unpause", "freeze", "unfreeze", "softreboot", "reset", "addvolume", "removevolume")
SWITCHES = ("start", "stop", "restart", "addvolume", "removevolume", "memorydump", "removememorydump")
CDI_KINDS = ("datavolumes", "datasources")


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _instance(subresources: Sequence[str]) -> list[str]:
    return [f"virtualmachineinstances/{name}" for name in subresources]


SUBRESOURCES = "subresources.kubevirt.io"
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
AGGREGATED = ("admin", "edit", "view")
FOR_EVERYBODY = ("kubevirt.io:default", "cdi.kubevirt.io:config-reader")


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
