"""Expected guest: what a cluster must look like by its inventory groups, its variables and the matrix."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import HarnessBug
from harness.model import GuestCluster, ip_version
from harness.paths import MATRIX, packaged_dir
from harness.spec.loader import load_layered
from harness.spec.models import Gateway as Gateway
from harness.spec.models import NetworkPlugin
from harness.spec.models.artifacts import ImagesFile
from harness.spec.models.leaves import ClusterLeaves, PluginLeaves, RunsAs
from harness.spec.models.network_plugins import LOOK, NetworkPluginsFile
from harness.spec.project import matrix_dir
from harness.validate.variables import (
    ADD_ONS,
    CERTIFICATES,
    EMULATES,
    emulated_minor,
    hardened_kubelet,
    without_kube_proxy,
)

IMAGES = "images.yml"


def system_of(image: str) -> tuple[str, str] | None:
    """Return what /etc/os-release has as ID and VERSION_ID on machines of an image; None for an unknown image."""
    return _images(matrix_dir()).get(image)


@cache
def _images(directory: Path) -> dict[str, tuple[str, str]]:
    return {image.name: (image.os, image.version) for image in load_layered(directory, IMAGES, ImagesFile).images}


NETWORK_PLUGINS = "network_plugins.yml"


def plugins() -> Mapping[str, NetworkPlugin]:
    """Return every network plugin that the project describes, by name."""
    return _network_plugins(matrix_dir())


@cache
def _network_plugins(directory: Path) -> Mapping[str, NetworkPlugin]:
    return load_layered(directory, NETWORK_PLUGINS, NetworkPluginsFile).network_plugins


def plugin_named(name: str, varieties: Mapping[str, PluginLeaves] | None) -> NetworkPlugin | None:
    """Return a network plugin, None for one that nobody describes.

    Args:
        varieties: what the product says of its plugins, which wins. None: it says nothing, so that the packaged file,
            which is about vmatrix's own playbooks, does not count.
    """
    own = matrix_dir() / NETWORK_PLUGINS
    if varieties is None and (not own.is_file() or own.samefile(packaged_dir() / MATRIX / NETWORK_PLUGINS)):
        return None
    known, variety = plugins().get(name), (varieties or {}).get(name)
    if variety is None:
        return known
    settings = {key: getattr(variety, key) for key in variety.model_fields_set}
    if settings.get("look", "") is None:
        del settings["look"]
    return (known or NetworkPlugin()).model_copy(update=settings)


def of_vni(plugin: NetworkPlugin | None, vni: str) -> NetworkPlugin | None:
    """Return a network plugin whose tunnels have the VXLAN number of a cluster in their names, such as flannel.7."""
    names = {field: getattr(plugin, field, None) for field in ("tunnel", "ipv6_tunnel", "look")}
    if plugin is None or not vni:
        return plugin
    return plugin.model_copy(
        update={
            field: re.sub(r"(flannel(-v6)?)\.1\b", rf"\1.{vni}", name or "") or None for field, name in names.items()
        }
    )


CONTROL_PLANE = "control_plane"
NODE = "node"
ETCD = "etcd"
CONTROL_PLANE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
RUNTIMES = {"containerd": "containerd", "crio": "crio", "cri-o": "crio"}  # name in variables -> its process
PROXY_MODES = ("iptables", "ipvs", "nftables")
LEFT_OUT = "left out"  # in the place of a mode: the cell asks for no kube-proxy
DOMAIN = "cluster.local"  # Kubernetes' default
VERSIONS = {  # what is called `own_versions` in product.yml -> variable
    "runc": "cluster_runc_version",
    "cni_plugins": "cluster_cni_plugins_version",
    "etcd": "cluster_etcd_version",
    "coredns": "cluster_coredns_version",
}

# k3s: v1.31.5+k3s1, RKE2: v1.30.6+rke2r1, EKS: v1.33.4-eks-113cf36, GKE: v1.31.5-gke.1023000, also in tags of images.
# What a lookahead has matched is not taken back; possessive quantifiers go wrong in Python 3.11.2, which Debian 12 has.
DISTRIBUTION = re.compile(
    r"(?=([0-9]+\.[0-9]+\.[0-9]+(?:-(?:alpha|beta|rc)(?:\.[0-9]+(?![0-9A-Za-z])|(?!\.?[0-9A-Za-z])))?))"
    r"\1[-+~.][-+~.\w]*(?=[,\s]|$)"
)


@dataclass(frozen=True)
class ExpectedGuest:
    """The expected guest: machine names by role, versions without a leading v, networks as CIDR.

    `machines` are all machines of the inventory; `nodes` those that are Kubernetes nodes (an external etcd's machines
    are not). `plugin_version` is empty for a network plugin that comes with the playbooks. `addons` are the versions of
    the optional add-ons that the cell asks for. What the cell's variables do not say, or the product decides, is "".
    `systems`: ID and VERSION_ID of each machine's operating system, as its image has it; None where nobody says.
    `plugin`: what the network plugin leaves in a guest; None for one that nobody describes.
    `ipv6_*`: the networks and addresses of a second IP family, "" and empty for a cell without one.
    `leaves`: what the product says that it leaves behind.  `variables`: all of the cell's.
    `options`: those that name the infra cluster to a vmatrix command.
    `earlier_minors`: of Kubernetes that the cluster may have been before; None where nobody says.
    `behind`: the variables of the phase that last upgraded a node, by those that an upgrade left behind.
    `former_control_planes`: machines that were control planes in other phases; None where nobody says.
    """

    cell: str
    machines: tuple[str, ...]
    nodes: tuple[str, ...]
    control_plane: tuple[str, ...]
    workers: tuple[str, ...]
    etcd: tuple[str, ...]
    addresses: Mapping[str, str]
    systems: Mapping[str, tuple[str, str] | None]
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
    variables: Mapping[str, Any]
    plugin: NetworkPlugin | None
    leaves: ClusterLeaves
    ipv6_addresses: Mapping[str, str] = field(default_factory=dict)
    ipv6_pod_cidr: str = ""
    ipv6_service_cidr: str = ""
    options: tuple[str, ...] = ()
    earlier_minors: frozenset[str] | None = None
    behind: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    former_control_planes: frozenset[str] | None = None

    @property
    def dual(self) -> bool:
        """Tell whether the cell's cluster has networks of both IP families."""
        return bool(self.ipv6_pod_cidr)

    @property
    def families(self) -> tuple[ExpectedGuest, ...]:
        """Return the guest as each IP family has it: with the networks, addresses and tunnel of that one alone."""
        if not self.dual:
            return (self,)
        plugin = _of_ipv6(self.plugin)
        first = replace(self, ipv6_addresses={}, ipv6_pod_cidr="", ipv6_service_cidr="")
        second = replace(
            first,
            addresses=self.ipv6_addresses,
            pod_cidr=self.ipv6_pod_cidr,
            service_cidr=self.ipv6_service_cidr,
            plugin=plugin,
        )
        return first, second

    @property
    def version(self) -> int:
        """Return 4 or 6: the IP family of the pod network; 4 where nobody says."""
        return ip_version(self.pod_cidr)

    @property
    def ipv6(self) -> bool:
        """Tell whether the cell's cluster has networks of IPv6, alone or besides those of IPv4."""
        return self.dual or self.version == 6

    @property
    def image_prefix(self) -> str:
        """Return what names of the registry's images begin with."""
        return str(self.variables.get("cluster_image_prefix") or self.registry)

    @property
    def loopback(self) -> str:
        """Return the address at which etcd listens for its own machine: kubeadm takes that of the first family."""
        return "::1" if self.version == 6 else "127.0.0.1"

    @property
    def pod_cidrs(self) -> str:
        """Return the pod networks of all families as components have them, with a comma between them."""
        return ",".join(filter(None, (self.pod_cidr, self.ipv6_pod_cidr)))

    @property
    def service_cidrs(self) -> str:
        """Return the Service networks of all families as components have them, with a comma between them."""
        return ",".join(filter(None, (self.service_cidr, self.ipv6_service_cidr)))

    @property
    def tunnels(self) -> tuple[str, ...]:
        """Return the network plugin's tunnels, of all families that the cell has."""
        own = (family.plugin.tunnel for family in self.families if family.plugin is not None)
        return tuple(tunnel for tunnel in own if tunnel is not None)

    def addresses_of(self, machine: str) -> tuple[str, ...]:
        """Return the addresses that a machine has as a node, the first family's first."""
        return tuple(family.addresses[machine] for family in self.families)

    @property
    def minor(self) -> str:
        """Return the Kubernetes minor: "1.36"."""
        return minor_of(self.kubernetes)

    def kubernetes_of(self, node: str) -> str:
        """Return the version of Kubernetes of a node's kubelet, kubeadm and kubectl."""
        version = self.variables_of(node).get(KUBERNETES) if node in self.behind else None
        return str(version).removeprefix("v") if version else self.kubernetes

    @property
    def kube_proxy_version(self) -> str:
        """Return kube-proxy's version: an upgrade that leaves the kubelets of control planes leaves add-ons, too."""
        return self.kubernetes_of(self.control_plane[0]) if self.control_plane else self.kubernetes

    def variables_of(self, node: str) -> Mapping[str, Any]:
        """Return the variables with which a node's kubelet and container runtime were made or upgraded last."""
        return self.behind.get(node, self.variables)

    @property
    def emulated_minor(self) -> str:
        """Return the minor version of which API servers serve the API: "1.35"; "" where the cell does not say."""
        return emulated_minor(self.variables)

    @property
    def stacked_etcd(self) -> bool:
        """Tell whether every control plane runs its own etcd member, as a static pod."""
        return set(self.etcd) == set(self.control_plane)

    @property
    def runtime_process(self) -> str:
        """Return the name of the container runtime's process, "" for a runtime that checks do not know."""
        return RUNTIMES.get(self.runtime, "")

    @property
    def look(self) -> str:
        """Return where to look when pods do not reach each other."""
        return self.plugin.look if self.plugin is not None else LOOK

    @property
    def namespaces(self) -> frozenset[str] | None:
        """Return the namespaces of the cluster's own pods; None where the product does not say."""
        if self.leaves.namespaces is None:
            return None
        known = [*plugins().values(), *([self.plugin] if self.plugin is not None else [])]
        return frozenset({*self.leaves.namespaces, *(plugin.daemon[0] for plugin in known if plugin.daemon)})

    def static(self, program: str) -> bool | None:
        """Tell whether a program of the control plane is a static pod there; None where the product does not say."""
        if program == "etcd" and not self.stacked_etcd:
            return False
        runs_as = self.leaves.etcd.runs_as if program == "etcd" else self.leaves.control_plane.runs_as
        return None if runs_as is None else runs_as is RunsAs.STATIC_POD

    def why_unknown(self, what: str) -> str:
        """Return why the expected version of something is not known."""
        if (what if what in VERSIONS else "container_runtime") in self.leaves.own_versions:
            return "the product decides it (own_versions of product.yml)"
        return f"the cell's variables have no {VERSIONS.get(what, f'cluster_{self.runtime}_version')}"

    def login(self, machine: str = "MACHINE") -> str:
        """Return the command that opens a shell on one of the cell's machines."""
        words = shlex.join(["vmatrix", "login", *self.options, self.cell, machine])
        return words if self.cell else f"log in to {machine}"


def _of_ipv6(plugin: NetworkPlugin | None) -> NetworkPlugin | None:
    """Return a network plugin as IPv6 has it: with the tunnel of that family alone."""
    return plugin.model_copy(update={"tunnel": plugin.ipv6_tunnel}) if plugin is not None else None


def minor_of(version: str) -> str:
    """Return the minor of a version: "1.36" of "1.36.3", "v1.36.3" or "v1.36.3+k3s1"."""
    major, _, rest = version.removeprefix("v").partition(".")
    match = re.match("[0-9]+", rest)
    return f"{major}.{match[0] if match else rest}"


def upstream_of(text: str) -> str:
    """Return a text with upstream's versions in place of distributions': "v1.31.5" of "v1.31.5+k3s1".

    What upstream itself calls a pre-release stays: -alpha, -beta.1, -rc.0.
    """
    return DISTRIBUTION.sub(r"\1", text)


def _plugin_of(text: Mapping[str, str], leaves: ClusterLeaves) -> NetworkPlugin | None:
    """Return the network plugin of a cluster with these variables."""
    named = plugin_named(text.get("cluster_network_plugin", ""), leaves.network_plugins)
    return of_vni(named, text.get("cluster_vxlan_vni", ""))


def expected_of(guest: GuestCluster, leaves: ClusterLeaves) -> ExpectedGuest:
    """Read what a guest must look like.

    Raises:
        HarnessBug: the cell has no version of Kubernetes.
    """
    environment, leaves = guest.environment, _of_runtime(_in_own_folder(leaves, guest.expected), guest.expected)
    control_plane, etcd = (tuple(m.name for m in environment.group(group)) for group in (CONTROL_PLANE, ETCD))
    nodes = tuple(m.name for m in environment.machines if {CONTROL_PLANE, NODE} & set(m.groups))
    text = _texts(guest.expected)
    runtime, network_plugin = text.get("cluster_container_runtime", ""), text.get("cluster_network_plugin", "")
    pods, plugin = text.get("cluster_pod_cidr", ""), _plugin_of(text, leaves)
    versions = {what: "" if what in leaves.own_versions else _version(text, name) for what, name in VERSIONS.items()}
    own_runtime, own_plugin = ("container_runtime" in leaves.own_versions, "network_plugin" in leaves.own_versions)
    return ExpectedGuest(
        cell=environment.cell.id if environment.namespace else "",
        machines=tuple(m.name for m in environment.machines),
        nodes=nodes,
        control_plane=control_plane,
        workers=tuple(name for name in nodes if name not in control_plane),
        etcd=etcd or control_plane,
        addresses={m.name: m.node_address(pods) for m in environment.machines},
        systems={m.name: system_of(m.planned.image) for m in environment.machines},
        kubernetes=_kubernetes(guest, text),
        runtime=runtime,
        runtime_version="" if own_runtime else _version(text, f"cluster_{runtime}_version"),
        runc=versions["runc"],
        cni_plugins=versions["cni_plugins"],
        network_plugin=network_plugin,
        plugin_version="" if own_plugin or plugin is None else _version(text, plugin.version or ""),
        addons={
            name: text[add_on.variable].removeprefix("v") for name, add_on in ADD_ONS.items() if add_on.variable in text
        },
        kube_proxy_mode=LEFT_OUT if without_kube_proxy(guest.expected) else text.get("cluster_kube_proxy_mode", ""),
        pod_cidr=pods,
        service_cidr=text.get("cluster_service_cidr", ""),
        dns_domain=text.get("cluster_dns_domain", DOMAIN),
        registry=text.get("cluster_image_registry", ""),
        kubelet_config={**hardened_kubelet(guest.expected), **(guest.expected.get("cluster_kubelet_config") or {})},
        variables=guest.expected,
        plugin=_of_ipv6(plugin) if ip_version(pods) == 6 else plugin,
        leaves=leaves,
        ipv6_addresses={m.name: m.ipv6_address for m in environment.machines},
        ipv6_pod_cidr=text.get("cluster_ipv6_pod_cidr", ""),
        ipv6_service_cidr=text.get("cluster_ipv6_service_cidr", ""),
        options=environment.options,
        **_of_phases(guest, control_plane, versions),
    )


def _texts(variables: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in variables.items() if value not in (None, "")}


def _of_phases(guest: GuestCluster, control_plane: Sequence[str], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return what the phases of a guest's cell say of it, where there is a cell."""
    known, behind = bool(guest.environment.namespace), _behind(guest, control_plane)
    text = _texts(behind.get(control_plane[0], guest.expected) if control_plane else guest.expected)
    return {
        "behind": behind,
        "coredns": versions["coredns"] and _version(text, VERSIONS["coredns"]),
        "etcd_version": versions["etcd"] and _version(text, VERSIONS["etcd"]),
        "earlier_minors": _earlier_minors(guest) if known else None,
        "former_control_planes": _former_control_planes(guest, control_plane) if known else None,
    }


def _earlier_minors(guest: GuestCluster) -> frozenset[str]:
    """Return the minors that any phase of a cell deploys, but for the guest's own."""
    versions = (phase.vars.get("cluster_kubernetes_version") for phase in guest.environment.cell.phases)
    own = minor_of(str(guest.expected.get("cluster_kubernetes_version", "")))
    return frozenset(minor_of(str(version)) for version in versions if version) - {own}


KUBERNETES = "cluster_kubernetes_version"
# Variables of a phase that upgrades control planes alone, and of one that leaves the kubelets of these as well.
WORKERS_BEHIND, NODES_BEHIND = {"cluster_upgrade_workers": False}, {EMULATES: True}


def _behind(guest: GuestCluster, control_plane: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Return the variables of the phase that last upgraded a node, by those that the guest's own has left behind."""
    phases, variables_of = guest.environment.cell.phases, dict[str, Mapping[str, Any]]()
    for flag in (WORKERS_BEHIND, NODES_BEHIND):
        left = [phase.name == "upgrade" and flag.items() <= phase.vars.items() for phase in phases]
        own = [
            n
            for n in range(len(phases))
            if left[n] and phases[n].vars.get(KUBERNETES) == guest.expected.get(KUBERNETES)
        ]
        if not own or not flag.items() <= guest.expected.items():
            continue
        upgraded = next((phases[n].vars for n in reversed(range(own[0])) if not left[n]), None)
        nodes = (m.name for m in guest.environment.machines if {CONTROL_PLANE, NODE} & set(m.groups))
        stay = [name for name in nodes if flag is NODES_BEHIND or name not in control_plane]
        variables_of |= dict.fromkeys(stay, upgraded) if upgraded is not None else {}
    return variables_of


def _former_control_planes(guest: GuestCluster, present: Collection[str]) -> frozenset[str]:
    """Return the control planes of any phase of a cell, but for those that are there."""
    planned = guest.environment.cell.machines
    return frozenset(machine.name for machine in planned if CONTROL_PLANE in machine.groups) - frozenset(present)


def _in_own_folder(leaves: ClusterLeaves, variables: Mapping[str, Any]) -> ClusterLeaves:
    """Return what a product leaves behind, with its certificates in the folder that the cell asks for."""
    usual, asked = leaves.certificates, variables.get(CERTIFICATES)
    if not asked or usual is None or asked == usual:
        return leaves
    ca = leaves.local_api.ca
    moved = f"{asked}{ca.removeprefix(usual)}" if ca is not None and ca.startswith(f"{usual}/") else ca
    return leaves.model_copy(
        update={"certificates": str(asked), "local_api": leaves.local_api.model_copy(update={"ca": moved})}
    )


def _of_runtime(leaves: ClusterLeaves, variables: Mapping[str, Any]) -> ClusterLeaves:
    """Return what a product leaves behind, with unit and settings of the runtime that the cell asks for."""
    other = leaves.other_runtimes.get(str(variables.get("cluster_container_runtime", "")))
    if other is None:
        return leaves
    return leaves.model_copy(update={"runtime_unit": other.unit, "runtime_settings": other.settings})


def _kubernetes(guest: GuestCluster, text: Mapping[str, str]) -> str:
    version = _version(text, "cluster_kubernetes_version")
    if not version:
        raise HarnessBug(
            f"cell {guest.environment.cell.id} lacks the variable cluster_kubernetes_version, which the checks need",
            paths=[guest.environment.files.variables],
        )
    return version


def _version(text: Mapping[str, str], name: str) -> str:
    return text.get(name, "").removeprefix("v")
