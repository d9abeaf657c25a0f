"""How teams usually call their playbooks, the folders of these, and the groups of machines in their inventories."""

from __future__ import annotations

FIRST = "deploy"  # the phase that no product can lack
FOLDERS = (".", "playbooks", "ansible", "deploy")  # where playbooks usually lie in a repository
PHASES = {  # the usual names of a phase's playbook, without ending and with dashes; the likelier first
    FIRST: ("cluster", "site", "deploy", "install", "create", "main", "setup"),
    "scale-out": ("scale-out", "scale-up", "scale", "add-node", "add-nodes", "join"),
    "scale-in": ("scale-in", "scale-down", "remove-node", "remove-nodes", "delete-node"),
    "remove-node": ("remove-node", "remove-nodes", "delete-node"),
    "upgrade": ("upgrade", "upgrade-cluster", "update"),
    "reconfigure": ("reconfigure",),
    "backup": ("backup", "etcd-backup"),
    "recover": ("recover", "restore", "recover-control-plane"),
    "reset": ("reset", "uninstall", "teardown"),
}
GROUPS = {  # the usual names of our groups; the first of each is our own
    "control_plane": ("control_plane", "kube_control_plane", "control_planes", "controlplane", "masters", "master",
                      "kube-master", "controllers", "servers", "server"),
    "etcd": ("etcd", "etcds", "etcd_nodes"),
    "node": ("node", "kube_node", "nodes", "workers", "worker", "kube-node", "agents", "agent"),
}  # fmt: skip
OF_ANSIBLE = ("all", "ungrouped", "localhost")  # what plays name and no topology needs
