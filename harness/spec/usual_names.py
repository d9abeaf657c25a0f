"""Usual names in playbooks of others: folders, playbooks of phases, groups of machines.

By them `vmatrix init` finds what a repository has, and a cluster of one's own is read from its inventory.
"""

from __future__ import annotations

FIRST = "deploy"  # the phase that no product can lack
FOLDERS = (".", "playbooks", "ansible", "deploy")  # where playbooks usually lie in a repository
PHASES = {  # the usual names of a phase's playbook, without ending and with dashes; the likelier first
    FIRST: ("vmatrix-deploy", "cluster", "site", "deploy", "install", "create", "main", "setup"),
    "scale-out": ("scale-out", "scale-up", "scale", "add-node", "add-nodes", "join"),
    "scale-in": ("scale-in", "scale-down", "remove-node", "remove-nodes", "delete-node"),
    "remove-node": ("remove-node", "remove-nodes", "delete-node"),
    "upgrade": ("upgrade", "upgrade-cluster", "update"),
    "reconfigure": ("reconfigure",),
    "defragment": ("defragment-etcd", "etcd-defragment", "etcd-defrag", "defrag"),
    "certificates": ("certificates", "renew-certificates", "renew-certs"),
    "rotate-ca": ("rotate-ca", "ca-rotation", "rotate-certificate-authority"),
    "backup": ("backup", "etcd-backup"),
    "recover": ("recover", "restore", "recover-control-plane"),
    "reset": ("reset", "uninstall", "teardown"),
    "clone": ("clone", "clone-cluster"),
}
GROUPS = {  # the usual names of our groups; the first of each is our own
    "control_plane": ("control_plane", "kube_control_plane", "control_planes", "controlplane", "controlplanes",
                      "controlplane_nodes", "k8s_control_plane", "masters", "master", "kube-master", "kube_master",
                      "kube_masters", "k8s_master", "k8s_masters", "kubernetes_master", "kubernetes_masters",
                      "master_nodes", "controllers", "controller", "managers", "servers", "server", "k3s_server",
                      "k3s_servers", "k3s_master", "rke2_servers", "rke2_server", "k0s_controllers"),
    "etcd": ("etcd", "etcds", "etcd_nodes", "etcd_cluster", "k8s_etcd"),
    "node": ("node", "kube_node", "nodes", "workers", "worker", "kube-node", "kube_nodes", "kube_workers", "k8s_node",
             "k8s_nodes", "k8s_worker", "k8s_workers", "kubernetes_node", "kubernetes_nodes", "kubernetes_worker",
             "kubernetes_workers", "worker_nodes", "minions", "agents", "agent", "k3s_agent", "k3s_agents", "k3s_node",
             "rke2_agents", "rke2_agent"),
}  # fmt: skip
# Groups of all nodes, control planes included.
WHOLE = ("k8s_cluster", "k8s-cluster", "k3s_cluster", "rke2_cluster", "kube_cluster", "kubernetes_cluster",
         "kubernetes", "k8s", "k3s", "rke2", "k0s", "kube", "cluster")  # fmt: skip
OF_ANSIBLE = ("all", "ungrouped", "localhost")  # what plays name and no topology needs
