"""The infra cluster's network: what bridged machines need of it, and which networks are left for guests.

Covers what a kubeconfig may look at: nodes, the kubernetes Service, kubeadm's, flannel's and Cilium's ConfigMaps,
Calico's and Kubernetes' own objects. What RBAC denies, or is not there, is left out; whoever asks is told what could
be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from harness import yaml_text
from harness.errors import BadInput
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.resources import CALICO_FELIX, CALICO_POOL, CONFIG_MAP, KUBEVIRT, NODE, POD, SERVICE, SERVICE_CIDR

VXLAN_KERNEL_PORT = 8472  # Linux's own default, and flannel's
VXLAN_IANA_PORT = 4789  # https://www.rfc-editor.org/rfc/rfc7348; Calico's default
NESTED_PORTS = (8473, 8474, 8475, 8476)
PODS, SERVICES, NODES = "pods", "services", "nodes"
GUEST_NETWORKS = {"cluster_pod_cidr": "pod network", "cluster_service_cidr": "service network"}  # by the variable
AWS = "aws://"
HOW = "set guest_vars to a YAML file with `{name}: {value}`"


@dataclass(frozen=True)
class Plugin:
    """A network plugin, told by an API group that it serves: whether machines bridged to it are known to work.

    works: None where nobody has shown either.
    """

    group: str
    name: str
    works: bool | None


# Bridged machines are run day in, day out on Calico and flannel (Cluster API's KubeVirt provider, kubespray's CI); on
# the AWS VPC plugin they get no network (kubevirt issues 12236, 9049, 8520).
PLUGINS = (
    Plugin("crd.k8s.amazonaws.com", "AWS VPC", works=False),
    Plugin("crd.projectcalico.org", "Calico", works=True),
    Plugin("cilium.io", "Cilium", works=None),
    Plugin("k8s.ovn.org", "OVN-Kubernetes", works=None),
    Plugin("kubeovn.io", "Kube-OVN", works=None),
    Plugin("crd.antrea.io", "Antrea", works=None),
)


def check_binding(cluster: Cluster) -> Iterator[Finding]:
    """Yield what of KubeVirt's settings keeps machines from being bridged to the pod network."""
    for kubevirt in cluster.list(KUBEVIRT).items:
        configuration: Mapping[str, Any] = (kubevirt.get("spec") or {}).get("configuration") or {}
        if (configuration.get("network") or {}).get("permitBridgeInterfaceOnPodNetwork") is False:
            meta = kubevirt["metadata"]
            patch = '{"spec":{"configuration":{"network":{"permitBridgeInterfaceOnPodNetwork":true}}}}'
            where = f"{meta['name']} -n {meta.get('namespace', 'kubevirt')}"
            yield Finding(
                "KubeVirt does not permit bridge binding on the pod network",
                "machines are bridged to it; with masquerade every machine has the address 10.0.2.2",
                f"kubectl patch kubevirt {where} --type merge -p '{patch}'",
            )


def check_plugin(cluster: Cluster, served: Collection[str], tried: bool | None = None) -> Iterator[Finding]:
    """Yield what is known of the network plugin that matters to bridged machines, by the API's group/versions.

    Args:
        tried: whether a dry run showed that bridged machines reach their neighbours; it says more than a name.
    """
    groups = {version.partition("/")[0] for version in served}
    if tried is False:
        yield Finding(
            "nobody answers ARP on the pod network for the other pods of a node (a dry run with two pods showed it)",
            "machines on one node could not reach each other, and `portforward` would time out",
            "set net.ipv4.conf.all.proxy_arp=1 on every node (kindnet, ptp), or use Calico or flannel",
        )
    if tried is not None:
        return
    for plugin in PLUGINS:
        if plugin.group not in groups or plugin.works:
            continue
        if plugin.works is False:
            yield Finding(
                f"the network plugin is {plugin.name} (its API group {plugin.group} is served)",
                "bridged machines have no network with it, and with masquerade only cells of one machine work",
                "use a cluster with Calico or flannel; if another plugin is in use here, delete the CRDs of that group",
            )
        else:
            yield Finding(
                f"the network plugin is {plugin.name}",
                "bridged machines have not been tested with it",
                "try a single machine first: vmatrix run --tier single",
                fatal=False,
            )
    providers = {
        n["metadata"]["name"]: str((n.get("spec") or {}).get("providerID", "")) for n in _listed_nodes(cluster)
    }
    amazon = [node for node, provider in providers.items() if provider.startswith(AWS)]
    if amazon and "crd.k8s.amazonaws.com" not in groups:
        yield Finding(
            f"nodes are Amazon's ({amazon[0]})",
            "bridged machines have no network with the AWS VPC network plugin; other plugins work",
            "find out which one it is: kubectl get daemonsets -A (aws-node is AWS VPC)",
            fatal=False,
        )


def _listed_nodes(cluster: Cluster) -> list[dict[str, Any]]:
    try:
        return cluster.list(NODE).items
    except ApiFailure as failure:
        if failure.forbidden:  # another check says so
            return []
        raise


def check_ipv6(cluster: Cluster) -> Iterator[Finding]:
    """Yield that pods have no IPv6 addresses, where cells need machines that have one."""
    pods = cluster.list(POD).items
    own = [pod for pod in pods if not pod["spec"].get("hostNetwork") and (pod.get("status") or {}).get("podIP")]
    if not own:
        yield Finding(
            "not checked whether pods get IPv6 addresses (no pod has an address of the pod network)",
            "machines have the addresses of their pods, and some cells need IPv6 as well as IPv4",
            "try one of those cells: vmatrix run --tier dual",
            fatal=False,
        )
    elif not any(":" in address["ip"] for pod in own for address in pod["status"].get("podIPs") or []):
        yield Finding(
            "pods have no IPv6 addresses",
            "machines have the addresses of their pods, and some cells need IPv6 as well as IPv4",
            "take ipv6 out of the profile's `offers` in matrix/infras.yml, or use a dual-stack cluster",
        )


def check_networks(cluster: Cluster, guests: Mapping[str, str], ranges: Collection[str] = ()) -> Iterator[Finding]:
    """Yield which of the guests' networks collide with the cluster's own, and what of the latter nobody could tell.

    Args:
        guests: the networks that guests use, by what they are for ("pod network", "service network").
        ranges: what the settings say of the cluster's own.
    """
    if not guests:
        return
    outer = read_outer(cluster, ranges)
    yield from _collisions(outer, guests)
    unknown = [whose for whose in (PODS, SERVICES) if whose not in outer.known]
    if unknown and outer.denied:
        yield Finding(
            f"no permission to read the cluster's networks of {' and '.join(unknown)}",
            "guests whose networks overlap with them cannot reach each other or the mirror",
            f"set outer_networks to these networks (CIDRs); guests use {', '.join(sorted(guests.values()))}",
            fatal=False,
        )


def _collisions(outer: Outer, guests: Mapping[str, str]) -> Iterator[Finding]:
    variables = {what: name for name, what in GUEST_NETWORKS.items()}
    taken = [network for network in guests.values() if not outer.collisions(network)]
    for what, inner in guests.items():
        hit = outer.collisions(inner)
        if not hit:
            continue
        free = outer.free(inner, taken)
        taken.append(free)
        yield Finding(
            f"the guests' {what} {inner} overlaps with the cluster's {'; '.join(hit[:3])}"
            + (f" and {len(hit) - 3} more" if len(hit) > 3 else ""),
            "machines have pod addresses, so guests could not reach each other, the mirror or the API",
            HOW.format(name=variables.get(what, what), value=free),
        )


@dataclass
class Outer:
    """What is known of an infra cluster's networks.

    networks: CIDR -> whose addresses they are and who says so.  vxlan_ports: that its own network uses.
    known: of what (PODS, SERVICES, NODES) anything at all could be read.  denied: whether something was refused.
    """

    networks: dict[str, str] = field(default_factory=dict)
    vxlan_ports: set[int] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    denied: bool = False

    def add(self, whose: str, cidrs: Iterable[str], source: str) -> None:
        """Add networks; anything else is left out."""
        for text in cidrs:
            try:
                network = str(ip_network(text.strip(), strict=False))
            except ValueError:
                continue
            self.networks.setdefault(network, f"{whose}, by {source}")
            self.known.add(whose)

    def collisions(self, inner: str) -> list[str]:
        """Return the outer networks that a guests' network overlaps, each with whose it is."""
        guest_network = ip_network(inner)
        return [
            f"{cidr} ({what})"
            for cidr, what in sorted(self.networks.items())
            if ip_network(cidr).version == guest_network.version and ip_network(cidr).overlaps(guest_network)
        ]

    def vxlan_port(self) -> int:
        """Return a port for guests' VXLAN that the outer one does not use.

        Never one of the two usual ports: a node's own network may take or drop what comes from a pod by them.
        """
        return next(p for p in NESTED_PORTS if p not in self.vxlan_ports)

    def free(self, like: str, taken: Iterable[str]) -> str:
        """Return a network as large as another that overlaps neither the outer ones nor those that are taken."""
        size = ip_network(like).prefixlen
        besides = [ip_network(n) for n in taken]
        for candidate in ip_network("10.0.0.0/8").subnets(new_prefix=max(size, 9)):
            if not self.collisions(str(candidate)) and not any(candidate.overlaps(n) for n in besides):
                return str(candidate)
        return "a free network"


def read_outer(cluster: Cluster, ranges: Iterable[str] = ()) -> Outer:
    """Read an infra cluster's own networks.

    Args:
        ranges: what the settings say of them.

    Raises:
        ApiFailure: the API failed otherwise than by denying.  Unreachable: does not answer.
    """
    outer, from_settings = Outer(), list(ranges)
    for whose in (PODS, SERVICES):
        outer.add(whose, from_settings, "the setting outer_networks")
    for reader in (
        _read_nodes,
        _read_service,
        _read_service_cidrs,
        _read_kubeadm,
        _read_flannel,
        _read_calico,
        _read_cilium,
    ):
        reader(cluster, outer)
    return outer


def _readable(outer: Outer, ask: Callable[[], Any]) -> Any:
    """Return an answer, None where it is denied or nothing exists."""
    try:
        return ask()
    except ApiFailure as failure:
        if not (failure.forbidden or failure.not_found):
            raise
        outer.denied |= failure.forbidden
        return None


def _read_nodes(cluster: Cluster, outer: Outer) -> None:
    nodes = _readable(outer, lambda: cluster.list(NODE).items) or []
    for node in nodes:
        spec = node.get("spec") or {}
        ranges = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
        outer.add(PODS, ranges, f"node {node['metadata']['name']}")
        addresses = (node.get("status") or {}).get("addresses") or []
        outer.add(NODES, _hosts(addresses), f"node {node['metadata']['name']}")


def _hosts(addresses: Iterable[Mapping[str, str]]) -> Iterator[str]:
    for address in addresses:
        if address.get("type") in ("InternalIP", "ExternalIP"):
            yield str(ip_network(ip_address(address["address"])))


def _read_service(cluster: Cluster, outer: Outer) -> None:
    service = _readable(outer, lambda: cluster.get(SERVICE, "kubernetes", "default")) or {}
    outer.add(SERVICES, (service.get("spec") or {}).get("clusterIPs") or [], "the Service default/kubernetes")


def _read_service_cidrs(cluster: Cluster, outer: Outer) -> None:
    for service_cidr in _readable(outer, lambda: cluster.list(SERVICE_CIDR).items) or []:
        cidrs = (service_cidr.get("spec") or {}).get("cidrs") or []
        outer.add(SERVICES, cidrs, f"ServiceCIDR {service_cidr['metadata']['name']}")


def _config(cluster: Cluster, outer: Outer, namespace: str, name: str) -> Mapping[str, str]:
    config: Json = _readable(outer, lambda: cluster.get(CONFIG_MAP, name, namespace)) or {}
    data: Mapping[str, str] = config.get("data") or {}
    return data


def _read_kubeadm(cluster: Cluster, outer: Outer) -> None:
    text = _config(cluster, outer, "kube-system", "kubeadm-config").get("ClusterConfiguration", "")
    networking = _parsed(lambda text: yaml_text.document(text, "ClusterConfiguration"), text).get("networking") or {}
    for key, whose in (("podSubnet", PODS), ("serviceSubnet", SERVICES)):
        outer.add(whose, str(networking.get(key) or "").split(","), "ConfigMap kube-system/kubeadm-config")


def _read_flannel(cluster: Cluster, outer: Outer) -> None:
    for namespace in ("kube-flannel", "kube-system"):
        config = _parsed(json.loads, _config(cluster, outer, namespace, "kube-flannel-cfg").get("net-conf.json", ""))
        backend = config.get("Backend") or {}
        outer.add(PODS, [str(config.get("Network") or "")], f"ConfigMap {namespace}/kube-flannel-cfg")
        if str(backend.get("Type", "")).lower() == "vxlan":
            outer.vxlan_ports.add(int(backend.get("Port") or VXLAN_KERNEL_PORT))


def _read_calico(cluster: Cluster, outer: Outer) -> None:
    pools = _readable(outer, lambda: cluster.list(CALICO_POOL).items) or []
    felix = _readable(outer, lambda: cluster.get(CALICO_FELIX, "default")) or {}
    for pool in pools:
        outer.add(PODS, [str((pool.get("spec") or {}).get("cidr", ""))], f"IPPool {pool['metadata']['name']}")
    if any((p.get("spec") or {}).get("vxlanMode", "Never") != "Never" for p in pools):
        outer.vxlan_ports.add(int((felix.get("spec") or {}).get("vxlanPort") or VXLAN_IANA_PORT))


def _read_cilium(cluster: Cluster, outer: Outer) -> None:
    config = _config(cluster, outer, "kube-system", "cilium-config")
    pools = str(config.get("cluster-pool-ipv4-cidr") or "").replace(",", " ").split()
    outer.add(PODS, pools, "ConfigMap kube-system/cilium-config")
    if (
        config
        and config.get("routing-mode", "tunnel") == "tunnel"
        and config.get("tunnel-protocol", "vxlan") == "vxlan"
    ):
        outer.vxlan_ports.add(int(config.get("tunnel-port") or VXLAN_KERNEL_PORT))


def _parsed(parse: Callable[[str], Any], text: str) -> Mapping[str, Any]:
    """Return a document that is a mapping; nothing of one that cannot be read."""
    try:
        document = parse(text) if text else {}
    except (ValueError, RecursionError, BadInput):
        return {}
    return document if isinstance(document, Mapping) else {}
