"""What a guest cluster must look like, from its cell's inventory groups and playbook variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessBug
from harness.model import GuestCluster
from harness.spec.models import NetworkPlugin
from harness.validate.facts.addons import ADD_ONS
from harness.validate.facts.network_plugins import plugin_named

CONTROL_PLANE = "control_plane"
NODE = "node"
ETCD = "etcd"
CONTROL_PLANE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class ExpectedGuest:
    """The expected guest: machine names by role, versions without a leading v, networks as CIDR.

    `machines` are all machines of the inventory; `nodes` those that are Kubernetes nodes (an external etcd's machines
    are not). `plugin_version` is empty for a network plugin that comes with the playbooks. `addons` are the versions of
    the optional add-ons that the cell asks for.
    """

    cell: str
    machines: tuple[str, ...]
    nodes: tuple[str, ...]
    control_plane: tuple[str, ...]
    workers: tuple[str, ...]
    etcd: tuple[str, ...]
    addresses: Mapping[str, str]
    kubernetes: str
    runtime: str
    runtime_version: str
    runc: str
    cni_plugins: str
    etcd_version: str
    coredns: str
    network_plugin: str
    plugin_version: str
    addons: Mapping[str, str]
    kube_proxy_mode: str
    pod_cidr: str
    service_cidr: str
    dns_domain: str
    registry: str
    kubelet_config: Mapping[str, Any]

    @property
    def minor(self) -> str:
        """Return the Kubernetes minor: "1.36"."""
        return minor_of(self.kubernetes)

    @property
    def stacked_etcd(self) -> bool:
        """Tell whether every control plane runs its own etcd member, as a static pod."""
        return set(self.etcd) == set(self.control_plane)

    @property
    def plugin(self) -> NetworkPlugin:
        """Return what the cell's network plugin leaves in a guest."""
        return plugin_named(self.network_plugin)

    def login(self, machine: str = "MACHINE") -> str:
        """Return the command that opens a shell on one of the cell's machines."""
        return f"vmatrix login {self.cell} {machine}"


def minor_of(version: str) -> str:
    """Return the minor of a version: "1.36" of "1.36.3" or "v1.36.3"."""
    return ".".join(version.removeprefix("v").split(".")[:2])


def expected_of(guest: GuestCluster) -> ExpectedGuest:
    """Read what a guest must look like.

    Raises:
        HarnessBug: the cell lacks a variable that the checks need.
    """
    environment = guest.environment
    control_plane = tuple(m.name for m in environment.group(CONTROL_PLANE))
    nodes = tuple(m.name for m in environment.machines if {CONTROL_PLANE, NODE} & set(m.groups))
    etcd = tuple(m.name for m in environment.group(ETCD))
    runtime = str(_variable(guest, "cluster_container_runtime"))
    network_plugin = str(_variable(guest, "cluster_network_plugin"))
    plugin = plugin_named(network_plugin)
    return ExpectedGuest(
        cell=environment.cell.id,
        machines=tuple(m.name for m in environment.machines),
        nodes=nodes,
        control_plane=control_plane,
        workers=tuple(name for name in nodes if name not in control_plane),
        etcd=etcd or control_plane,
        addresses={m.name: m.address for m in environment.machines},
        kubernetes=_version(guest, "cluster_kubernetes_version"),
        runtime=runtime,
        runtime_version=_version(guest, f"cluster_{runtime}_version"),
        runc=_version(guest, "cluster_runc_version"),
        cni_plugins=_version(guest, "cluster_cni_plugins_version"),
        etcd_version=_version(guest, "cluster_etcd_version"),
        coredns=_version(guest, "cluster_coredns_version"),
        network_plugin=network_plugin,
        plugin_version=_version(guest, plugin.version) if plugin.version is not None else "",
        addons={
            name: str(guest.expected[add_on.variable]).removeprefix("v")
            for name, add_on in ADD_ONS.items()
            if guest.expected.get(add_on.variable)
        },
        kube_proxy_mode=str(_variable(guest, "cluster_kube_proxy_mode")),
        pod_cidr=str(_variable(guest, "cluster_pod_cidr")),
        service_cidr=str(_variable(guest, "cluster_service_cidr")),
        dns_domain=str(_variable(guest, "cluster_dns_domain")),
        registry=str(_variable(guest, "cluster_image_registry")),
        kubelet_config=dict(guest.expected.get("cluster_kubelet_config") or {}),
    )


def _variable(guest: GuestCluster, name: str) -> Any:
    if guest.expected.get(name) in (None, ""):
        raise HarnessBug(
            f"cell {guest.environment.cell.id} lacks the variable {name}, which the checks need",
            paths=[guest.environment.files.variables],
        )
    return guest.expected[name]


def _version(guest: GuestCluster, name: str) -> str:
    return str(_variable(guest, name)).removeprefix("v")
