"""Keys `cluster` and `checks` of matrix/product.yml: what the product leaves behind, and which checks judge it.

What `cluster` does not say is None here. Checks then find it out from what runs, or do not judge it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from harness.spec.base import CHECK, FOLDER, SUBJECT, Model, Name, Text, Whole
from harness.spec.models.network_plugins import Gateway, NamespacedName

Folder = Annotated[str, StringConstraints(pattern=FOLDER)]
Subject = Annotated[str, StringConstraints(pattern=SUBJECT)]
Group = Literal["node", "control_plane"]
Version = Literal["container_runtime", "runc", "cni_plugins", "etcd", "coredns", "network_plugin"]


class RunsAs(StrEnum):
    """How a program of the control plane runs."""

    STATIC_POD = "static-pod"
    UNIT = "unit"


class KubeletLeaves(Model):
    """Where kubelet's files are and which systemd unit runs it."""

    unit: Text | None = Field(
        default=None, description="systemd unit that runs kubelet; else that of the running process"
    )
    config: Folder | None = Field(
        default=None, description="value of kubelet's flag --config; else any file that it names"
    )
    kubeconfig: Folder | None = Field(default=None, description="value of kubelet's flag --kubeconfig; else any file")
    client_certificate: Folder | None = Field(
        default=None, description="kubelet's client certificate; else the one that its kubeconfig names"
    )
    settings: dict[Text, bool | int | Text] = Field(
        default={},
        description="settings of every kubelet beside kubeadm's and those of cluster_kubelet_config, by path",
    )


class ControlPlaneLeaves(Model):
    """How API server, controller manager and scheduler run."""

    runs_as: RunsAs | None = Field(default=None, description="static-pod or unit; else as the running processes show")
    manifests: Folder | None = Field(default=None, description="folder of static pods; else staticPodPath of kubelet")
    other_static_pods: tuple[Text, ...] | None = Field(
        default=None,
        description="static pods besides those of the control plane and etcd, on any node; else any are allowed",
    )
    taint: Text | None = Field(
        default=None,
        description="KEY:EFFECT that control planes have where there are workers, or none; else not judged",
    )


class EtcdLeaves(Model):
    """How etcd runs, what its members are called, and which of them API servers use."""

    runs_as: RunsAs | None = Field(default=None, description="static-pod or unit; else as the running processes show")
    environment_file: Folder | None = Field(
        default=None,
        description="file with ETCD_* variables, which the running etcd must have; else they are not compared",
    )
    member_names: Literal["machine"] | None = Field(
        default=None,
        description="machine: each member has its machine's name; else members are told by their addresses",
    )
    used: Literal["own", "every"] | None = Field(
        default=None,
        description="API servers use the member on their own machine, or every member; else either is right",
    )
    unit: Text | None = Field(
        default=None, description="systemd unit of an etcd that is not a static pod; else that of the running process"
    )


class DnsLeaves(Model):
    """The cluster's DNS server."""

    service: NamespacedName | None = Field(
        default=None, description="NAMESPACE/NAME of its Service; else the one that has the label k8s-app=kube-dns"
    )
    deployment: NamespacedName | None = Field(
        default=None, description="NAMESPACE/NAME of its Deployment; else the one that has the label k8s-app=kube-dns"
    )
    kubelet_address: Text | None = Field(
        default=None,
        description="address that kubelets give to pods, or service for that of the Service; else that of the Service "
        "or a link-local address",
    )
    replicas: Whole | None = Field(
        default=None, ge=1, description="pods of its Deployment; else as many as the Deployment asks for"
    )


class LocalApiLeaves(Model):
    """The address at which nodes reach the API on themselves, if they have one, and the proxy behind it."""

    address: Text | None = Field(default=None, description="HOST:PORT; else the server that kubelet's kubeconfig names")
    ca: Folder | None = Field(
        default=None, description="file of the API server's CA; else the one of kubelet's kubeconfig"
    )
    group: Literal["node", "worker"] = Field(
        default="worker", description="nodes that have the proxy: node (every Node) or worker (all but control planes)"
    )
    backends: Folder | None = Field(
        default=None,
        description="haproxy's or nginx's file that lists the control planes; else that of a running haproxy",
    )
    unit: Text | None = Field(default=None, description="systemd unit of the proxy; else it is not judged")


class Tool(Model):
    """A program for people that the product installs."""

    path: Folder | None = Field(default=None, description="its file; else the first one in the usual folders")
    group: Group = Field(default="node", description="machines that have it: node (every Node) or control_plane")


class PluginLeaves(Model):
    """What the product's variety of a network plugin leaves behind, over what network_plugins.yml says of it.

    A key that is given replaces the value there; null means that this product's plugin has none.
    """

    unit: Text | None = Field(default=None, description="systemd unit that is enabled on every node")
    gateway: Gateway | None = Field(default=None, description="what a route to another node's pods leads through")
    tunnel: Text | None = Field(default=None, description="interface that wraps packets between nodes")
    daemon_set: NamespacedName | None = Field(default=None, description="NAMESPACE/NAME of its DaemonSet")
    image: Text | None = Field(default=None, description="last part of its image's repository")
    version: Text | None = Field(default=None, description="variable with its version")
    look: Text | None = Field(default=None, description="where to look when pods do not reach each other")


class FirewallLeaves(Model):
    """Which rules for packets a product leaves on machines."""

    tables: tuple[Text, ...] = Field(default=(), description="names of nftables' tables, beside those of iptables")
    chains: tuple[Text, ...] = Field(
        default=(), description="how the names of chains begin that iptables' own chains may jump to"
    )
    marks: tuple[Text, ...] = Field(
        default=(), description="marks and their masks (0x1/0x1) for which iptables' own chains may accept packets"
    )


class Manifest(Model):
    """Objects that the product installs, in a file or a template of the project.

    Expressions are Jinja's. They know the cell's variables, and what follows from them: images, kubernetes, minor,
    coredns, dns_domain, dns_address, kube_proxy, kube_proxy_mode, kubelet, pod_cidr, ipv6_pod_cidr, service_cidrs,
    addresses, workers, control_planes.
    """

    file: Text = Field(description="the file, from the project's folder on; else of the packaged files")
    when: Text | None = Field(default=None, description="expression that is true where they are installed; else always")
    vars: dict[Text, Text] = Field(default={}, description="variables of the template, an expression each")
    optional: bool = Field(default=False, description="true: they may be missing; what is there is as in the file")


class RuntimeLeaves(Model):
    """A container runtime that cells may have instead of the product's usual one."""

    unit: Text = Field(description="systemd unit of the runtime")
    settings: dict[Text, Text | bool | tuple[Text, ...]] | None = Field(
        default=None, description="settings of CRI-O, by their last key, or a list of what is right; else not judged"
    )


class ClusterLeaves(Model):
    """What a product's cluster consists of, and where it lies.

    kubelet: files and unit of kubelet.  control_plane: how its programs run.  etcd: how etcd runs.
    dns: the cluster's DNS server.  local_api: the address at which each node reaches the API.
    """

    certificates: Folder | None = Field(
        default=None,
        description="folder of ca.crt and apiserver.crt; else the files that the API server's flags name",
    )
    kubelet: KubeletLeaves = KubeletLeaves.model_construct()
    runtime_unit: Text | None = Field(
        default=None, description="systemd unit of the container runtime; else that of the running process"
    )
    kubectl: Tool | None = Field(
        default=None, description="kubectl on machines; else judged only where it is installed"
    )
    kubeadm: Tool | None = Field(
        default=None, description="kubeadm on machines; else judged only where it is installed"
    )
    cni_plugins: Folder | None = Field(
        default=None, description="folder of the CNI plugins; else /opt/cni/bin if it exists"
    )
    control_plane: ControlPlaneLeaves = ControlPlaneLeaves.model_construct()
    etcd: EtcdLeaves = EtcdLeaves.model_construct()
    dns: DnsLeaves = DnsLeaves.model_construct()
    kube_proxy: NamespacedName | None = Field(
        default=None, description="NAMESPACE/NAME of kube-proxy's DaemonSet; else the one of that name, if there is one"
    )
    local_api: LocalApiLeaves = LocalApiLeaves.model_construct()
    host_names: Folder | None = Field(
        default=None,
        description="file that names every machine; else /etc/hosts must only not name machines that are gone",
    )
    add_ons: dict[Name, NamespacedName] | None = Field(
        default=None,
        description="Deployment of each optional add-on; no other may exist. Else by name, and others may exist",
    )
    namespaces: tuple[Text, ...] | None = Field(
        default=None, description="namespaces of the cluster's own pods; else all but `default` and those of checks"
    )
    images_from_mirror: Literal[True] | None = Field(
        default=None, description="true: images of the cluster's own pods are named after the mirror; else not judged"
    )
    worker_label: Text | None = Field(
        default=None, description="label that workers have and control planes do not; else not judged"
    )
    node_labels: dict[Literal["node", "control_plane", "worker"], dict[Text, str]] | None = Field(
        default=None,
        description="labels below kubernetes.io and k8s.io that nodes have beside those of every kubelet, by group; "
        "no node has others. Else others are not judged",
    )
    cluster_admins: tuple[Subject, ...] | None = Field(
        default=None,
        description="all that ClusterRoleBindings bind to cluster-admin, as `Group NAME`, `User NAME` or "
        "`ServiceAccount NAMESPACE/NAME`; else only groups and accounts that stand for many must not be bound to it",
    )
    open_ports: dict[Literal["node", "control_plane", "etcd"], tuple[int, ...]] | None = Field(
        default=None,
        description="TCP ports that programs of the cluster open to other machines, by group; else not judged",
    )
    boot_modules: tuple[Text, ...] | None = Field(
        default=None,
        description="kernel modules that modules-load.d names on nodes, where sysctl.d has the kernel settings; "
        "else it is not judged what the next start of a machine sets",
    )
    boot_files: tuple[Folder, ...] | None = Field(
        default=None,
        description="globs of files that the product writes and a boot reads: units, sysctl.d, modules-load.d and the "
        "like. No other such file is newer than the machine's start. Else only what forbids something is judged",
    )
    secrets: tuple[Folder, ...] | None = Field(
        default=None,
        description="globs of files with secrets of the cluster besides those of kubeadm and kubelet; there is no "
        "other copy on machines. Else only files that any user reads are judged",
    )
    firewall: FirewallLeaves | None = Field(
        default=None,
        description="tables and chains of rules for packets that machines may have; no other rule drops, changes or "
        "delays packets. Else not judged",
    )
    flags: dict[Name, dict[Text, Text]] | None = Field(
        default=None,
        description="flags that programs have besides those of kubeadm and of the cell, by program; `{address}` and "
        "`{name}` are the machine's. Else only flags that the cell decides are judged",
    )
    runtime_settings: dict[Text, Text | bool | tuple[Text, ...]] | None = Field(
        default=None, description="settings of containerd's CRI plugin, by their last key; else they are not judged"
    )
    runtime_file_versions: dict[Text, Text] | None = Field(
        default=None,
        description="`version` in containerd's configuration file, by containerd's major version; else it is not "
        "judged",
    )
    other_runtimes: dict[Name, RuntimeLeaves] = Field(
        default={},
        description="unit and settings of runtimes that cells may have instead, by their cluster_container_runtime: "
        "they stand for `runtime_unit` and `runtime_settings`",
    )
    drop_ins: tuple[Folder, ...] | None = Field(
        default=None,
        description="files that amend units: of kubelet, the container runtime, the proxy before the API, etcd, the "
        "network plugin. Nothing else limits kubelet and the runtime. Else not judged",
    )
    unit_settings: dict[Text, dict[Text, str]] | None = Field(
        default=None,
        description="properties that services of the cluster have, by unit, as `systemctl show` prints them, or globs; "
        "all others are systemd's defaults. Else only restarts and limits of processes are judged",
    )
    admission: tuple[Text, ...] | None = Field(
        default=None,
        description="objects that change, refuse or limit others, as `KIND NAME` or `KIND NAMESPACE/NAME`; "
        "else not judged",
    )
    manifests: tuple[Manifest, ...] | None = Field(
        default=None,
        description="all objects that the product installs in the cluster, kubeadm's included: whole add-ons, and who "
        "has which rights; else only what every product must have is judged",
    )
    own_versions: tuple[Version, ...] = Field(
        default=(), description="versions that the product decides, whatever the cell's variables say: not judged"
    )
    network_plugins: dict[Name, PluginLeaves] | None = Field(
        default=None,
        description="network_plugins.yml describes this product's network plugins, but for what is said here by name; "
        "else only a project's own network_plugins.yml does, and the inside of others is not judged",
    )
    reset_leaves: tuple[Text, ...] | None = Field(
        default=None,
        description="globs of `KIND NAME` that may stay, come or go when machines are reset (file /usr/local/bin/*); "
        "else files, units and kernel settings are not judged",
    )


class LeftOutCheck(Model):
    """Checks that are not run, and why."""

    check: Annotated[str, StringConstraints(pattern=CHECK)] = Field(description="`SUITE: NAME`, a glob")
    reason: Text = Field(description="why; every report says so")


class ProductChecks(Model):
    """Which checks judge the product."""

    leave_out: tuple[LeftOutCheck, ...] = Field(default=(), description="checks that do not apply to this product")
    require_all: bool = Field(
        default=False,
        description="true: what a check cannot judge is a failure, and an unknown network plugin a mistake",
    )
