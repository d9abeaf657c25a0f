"""Whether an infra cluster's network carries guest clusters: binding, network plugin, addresses that do not collide."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.infra.cluster.outer_network import PODS, SERVICES, Outer, read_outer
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.resources import KUBEVIRT, NODE, POD

AWS = "aws://"
HOW = "set guest_vars to a YAML file with `{name}: {value}`"
VARIABLES = {"pod network": "cluster_pod_cidr", "service network": "cluster_service_cidr"}


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
            said = '{"spec":{"configuration":{"network":{"permitBridgeInterfaceOnPodNetwork":true}}}}'
            where = f"{meta['name']} -n {meta.get('namespace', 'kubevirt')}"
            yield Finding(
                "KubeVirt does not permit bridge binding on the pod network",
                "machines are bridged to it; with masquerade every machine has the address 10.0.2.2",
                f"kubectl patch kubevirt {where} --type merge -p '{said}'",
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
    providers = {n["metadata"]["name"]: str((n.get("spec") or {}).get("providerID", "")) for n in _nodes(cluster)}
    amazon = [node for node, provider in providers.items() if provider.startswith(AWS)]
    if amazon and "crd.k8s.amazonaws.com" not in groups:
        yield Finding(
            f"nodes are Amazon's ({amazon[0]})",
            "bridged machines have no network with the AWS VPC network plugin; other plugins work",
            "find out which one it is: kubectl get daemonsets -A (aws-node is AWS VPC)",
            fatal=False,
        )


def _nodes(cluster: Cluster) -> list[dict[str, Any]]:
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
    elif not any(":" in one["ip"] for pod in own for one in pod["status"].get("podIPs") or []):
        yield Finding(
            "pods have no IPv6 addresses",
            "machines have the addresses of their pods, and some cells need IPv6 as well as IPv4",
            "take ipv6 out of the profile's `offers` in matrix/infras.yml, or use a dual-stack cluster",
        )


def check_networks(cluster: Cluster, guests: Mapping[str, str], given: Collection[str] = ()) -> Iterator[Finding]:
    """Yield which of the guests' networks collide with the cluster's own, and what of the latter nobody could tell.

    Args:
        guests: the networks that guests use, by what they are for ("pod network", "service network").
        given: what the settings say of the cluster's own.
    """
    if not guests:
        return
    outer = read_outer(cluster, given)
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
            HOW.format(name=VARIABLES.get(what, what), value=free),
        )
