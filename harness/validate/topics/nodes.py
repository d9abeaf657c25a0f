"""Nodes: conditions, leases, versions, addresses, pod networks, labels, annotations and taints of Node objects."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from harness.kube import Cluster
from harness.kube.resources import LEASE
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView, Json, addresses_of, by_name, of_family, pod_networks_of
from harness.validate.findings import (
    Mismatch,
    differs,
    differs_upstream,
    lasting,
    on_every,
    same_set,
    together,
    unjudged,
)

NONE = "none"  # of a taint, in product.yml
LEASES = "kube-node-lease"  # namespace of what kubelets renew
REPORTED = {"crio": "cri-o"}  # what runtimes call themselves, where that is not their process
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
# Conditions that a node must have, with the status that is good.
CONDITIONS = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}


def unready_nodes(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return machines without a Node, Nodes without a machine, and Nodes with a bad condition."""
    nodes = by_name(view.nodes)

    def judge(name: str, node: Json) -> Iterator[Mismatch]:
        conditions = {c["type"]: c for c in node["status"].get("conditions", [])}
        for kind, good in CONDITIONS.items():
            condition = conditions.get(kind, {})
            if condition.get("status") != good:
                why = f"{condition.get('status', 'none')} ({condition.get('reason')}: {condition.get('message')})"
                yield Mismatch(name, f"{kind}={good}", why)
        network = conditions.get("NetworkUnavailable", {})  # which only some network plugins tell
        if network.get("status", "False") != "False":
            yield Mismatch(name, "NetworkUnavailable=False", f"{network['status']} ({network.get('message')})")
        yield from lasting(differs(name, "unschedulable", False, node["spec"].get("unschedulable", False)))
        for taint in _unfounded(node, {kind: condition.get("status", "") for kind, condition in conditions.items()}):
            yield Mismatch(name, "no taint for a condition that it does not have", taint)

    outside = without_login(view, expected)
    strangers = lasting(same_set("the cluster", "nodes", expected.nodes, {*nodes, *expected.nodes} - set(outside)))
    strangers += [unjudged(f"Node {name}", why) for name, why in outside.items()]
    missing = same_set("the cluster", "nodes", expected.nodes, set(nodes) & set(expected.nodes))
    return strangers + missing + on_every(expected.nodes, nodes, judge)


OS_LABEL = "kubernetes.io/os"
# Labels and annotations of Nodes on which no check can log in: the key, its value, and what such a Node is.
NO_LOGIN = (
    (OS_LABEL, "windows", "it is a Windows machine"),
    ("type", "virtual-kubelet", "it is not a machine, but a virtual kubelet"),
    ("eks.amazonaws.com/compute-type", "fargate", "it is not a machine, but a pod of Fargate"),
    ("kwok.x-k8s.io/node", "fake", "it is not a machine, but a Node of kwok"),
)


def without_login(view: ClusterView, expected: ExpectedGuest) -> dict[str, str]:
    """Return why nobody can log in to some Nodes of a cluster of others, which no inventory of machines can have."""
    if expected.cell:
        return {}
    outside: dict[str, str] = {}
    for node in view.nodes:
        about = node["metadata"]
        said = {**about.get("annotations", {}), **about.get("labels", {})}
        why = next((why for key, value, why in NO_LOGIN if said.get(key) == value), None)
        if why is not None and about["name"] not in expected.nodes:
            outside[about["name"]] = f"{why}, and checks look at Linux machines"
    return outside


# Taints that the node lifecycle controller keeps in step with a node, and for which of its conditions
# (kubernetes.io, "Taints and Tolerations", taint based evictions).
OF_CONDITIONS: Mapping[str, tuple[str, str]] = {
    "node.kubernetes.io/not-ready": ("Ready", "False"),
    "node.kubernetes.io/unreachable": ("Ready", "Unknown"),
    "node.kubernetes.io/memory-pressure": ("MemoryPressure", "True"),
    "node.kubernetes.io/disk-pressure": ("DiskPressure", "True"),
    "node.kubernetes.io/pid-pressure": ("PIDPressure", "True"),
    "node.kubernetes.io/network-unavailable": ("NetworkUnavailable", "True"),
}
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def same_nodes(before: Iterable[Json], after: Iterable[Json]) -> list[Mismatch]:
    """Return Nodes that are of another cluster, by their UIDs."""
    uids = {node["metadata"]["name"]: node["metadata"]["uid"] for node in before}
    if not uids:
        return [Mismatch("the cluster before", "its Nodes", "none")]
    return [
        Mismatch(f"Node {node['metadata']['name']}", "another one than before", f"the same, {node['metadata']['uid']}")
        for node in after
        if node["metadata"]["uid"] in uids.values()
    ]


def _unfounded(node: Json, conditions: Mapping[str, str]) -> Iterator[str]:
    """Yield the taints of a node that stand for a condition which it does not have."""
    for taint in node["spec"].get("taints", []):
        key = taint["key"]
        kind, status = OF_CONDITIONS.get(key, ("", ""))
        if key == UNSCHEDULABLE:
            founded = bool(node["spec"].get("unschedulable"))
        else:
            founded = bool(kind) and conditions.get(kind) == status
        if not founded and (kind or key == UNSCHEDULABLE):
            yield f"{key}:{taint['effect']}"


def strange_leases(api: Cluster, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return machines whose kubelet has no Lease to renew, and Leases of no machine."""
    names = {lease["metadata"]["name"] for lease in api.list(LEASE, LEASES).items} - set(without_login(view, expected))
    return same_set(f"Leases in {LEASES}", "Leases of", expected.nodes, names)


def wrong_node_versions(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes whose kubelet or container runtime reports another version than expected."""

    def judge(name: str, node: Json) -> Iterator[Mismatch]:
        info = node["status"]["nodeInfo"]
        runtime = f"{REPORTED.get(expected.runtime_process, expected.runtime)}://{expected.runtime_version}"
        yield from differs_upstream(name, "kubelet", f"v{expected.kubernetes_of(name)}", info["kubeletVersion"])
        # containerd reports its version as it was stamped: with or without a v
        if known:
            yield from differs_upstream(
                name, "runtime", runtime, info["containerRuntimeVersion"].replace("://v", "://")
            )

    known = bool(expected.runtime_process and expected.runtime_version)
    mismatches = on_every(expected.nodes, by_name(view.nodes), judge)
    why = f"the cell's variables have no version of the runtime {expected.runtime!r}, or the product decides it"
    return mismatches if known else [*mismatches, unjudged("the version of the container runtime", why)]


def wrong_node_networks(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes with other addresses than their machine, or with a pod network outside the cluster's or shared.

    Of each IP family that the cell has, and none of another.
    """
    return together(
        _other_addresses(view, expected), *(_wrong_pod_networks(view, family) for family in expected.families)
    )


def _other_addresses(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    versions = [family.version for family in expected.families]
    known = expected.plugin is not None and expected.pod_cidr

    def judge(name: str, node: Json) -> Iterator[Mismatch]:
        yield from differs(name, "InternalIP", [*expected.addresses_of(name)], _internal(node))
        if not known:
            return
        families = [ipaddress.ip_network(network).version for network in pod_networks_of(node)]
        yield from differs(name, "IP families of podCIDRs", versions, families)
        for pod, addresses in _own_pods(view, name, _internal(node)):
            families = [ipaddress.ip_address(address).version for address in addresses]
            yield from differs(f"{name} pod {pod}", "IP families of its addresses", versions, families)

    return on_every(expected.nodes, by_name(view.nodes), judge)


def _internal(node: Json) -> list[str]:
    return [address["address"] for address in node["status"].get("addresses", []) if address["type"] == "InternalIP"]


def _wrong_pod_networks(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    nodes = by_name(view.nodes)
    ranges = {name: of_family(pod_networks_of(node), expected.version) for name, node in nodes.items()}

    def judge(name: str, node: Json) -> Iterator[Mismatch]:
        own = ranges[name]
        if not judged:
            return
        if not own or not ipaddress.ip_network(own).subnet_of(ipaddress.ip_network(expected.pod_cidr)):  # type: ignore[arg-type]
            yield Mismatch(name, f"a podCIDR within {expected.pod_cidr}", repr(own))
        twins = sorted(other for other, taken in ranges.items() if other != name and own and taken == own)
        yield from differs(name, f"other nodes with {own}", [], twins)
        if not (own and expected.plugin and expected.plugin.gateway):
            return
        for pod, addresses in _own_pods(view, name, _internal(node)):
            address = of_family(addresses, expected.version)
            if address and ipaddress.ip_address(address) not in ipaddress.ip_network(own):
                yield Mismatch(f"{name} pod {pod}", f"an address within {own}", address)

    # a plugin that nobody describes may give addresses to pods by itself
    judged = bool(expected.pod_cidr) and (expected.plugin is not None or any(ranges.values()))
    mismatches = on_every(expected.nodes, nodes, judge)
    why = "no node has a podCIDR, and nobody describes the network plugin, or there is no cluster_pod_cidr"
    return mismatches if judged else [*mismatches, unjudged("the nodes' pod networks", why)]


def _own_pods(view: ClusterView, node: str, internal: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the running pods of a node that have addresses of their own, with these."""
    for pod in view.pods:
        addresses, spec = addresses_of(pod), pod["spec"]
        here = spec.get("nodeName") == node and pod["status"].get("phase") == "Running"
        if here and addresses and not set(addresses) & set(internal) and not spec.get("hostNetwork"):
            yield f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", addresses


def wrong_roles(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes whose labels of roles or taints do not fit their role."""
    nodes = by_name(view.nodes)
    labelled = {name for name, node in nodes.items() if CONTROL_PLANE_LABEL in node["metadata"].get("labels", {})}

    def judge(name: str, node: Json) -> list[Mismatch]:
        # those of conditions are judged with them
        lasting = [t for t in node["spec"].get("taints", []) if t["key"] not in (*OF_CONDITIONS, UNSCHEDULABLE)]
        taints = {_taint(t) for t in lasting}
        if taint is None and name not in expected.workers:
            return []
        tainted = taint not in (None, NONE) and name not in expected.workers and expected.workers
        return same_set(name, "taints", {str(taint)} if tainted else set(), taints)

    taint = expected.leaves.control_plane.taint
    mismatches = same_set("the cluster", "control-plane nodes", expected.control_plane, labelled)
    mismatches += on_every(expected.nodes, nodes, judge)
    label = expected.leaves.worker_label
    if label is not None:
        workers = {name for name, node in nodes.items() if label in node["metadata"].get("labels", {})}
        mismatches += same_set("the cluster", f"nodes with the label {label}", expected.workers, workers)
    why = "product.yml does not say which there are"
    mismatches += [unjudged("the labels of workers", why)] if label is None else []
    return mismatches if taint is not None else [*mismatches, unjudged("the taints of control planes", why)]


def _taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


OWN_DOMAINS = ("kubernetes.io", "k8s.io")  # Kubernetes' own, and everything below
# What every kubelet gives its node (kubernetes.io, "Well-Known Labels, Annotations and Taints").
KUBELETS: Mapping[str, str] = {
    "kubernetes.io/hostname": "{name}",
    "kubernetes.io/os": "{system}",
    "kubernetes.io/arch": "{architecture}",
    "beta.kubernetes.io/os": "{system}",
    "beta.kubernetes.io/arch": "{architecture}",
}
SYSTEM, ARCHITECTURE = "linux", "amd64"  # of our machines; of others', what kubelets report
# Annotations that change what is done with a node: their values, "" for whatever their owner writes; with {address},
# {ipv6}, {socket}. What is not in the list and of Kubernetes' domains is nobody's.
ANNOTATIONS: Mapping[str, str] = {
    "node.alpha.kubernetes.io/ttl": "0",  # of fewer than a hundred nodes
    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    "alpha.kubernetes.io/provided-node-ip": "{addresses}",
    "kubeadm.alpha.kubernetes.io/cri-socket": "{socket}",
    "csi.volume.kubernetes.io/nodeid": "",
}
NEEDED = ("volumes.kubernetes.io/controller-managed-attach-detach",)  # which a kubelet writes once
FLANNEL = "flannel.alpha.coreos.com/"
# What flannel's daemons read of each other's nodes: where their packets go to (flannel, "Kubernetes annotations").
OF_FLANNEL: Mapping[str, str] = {
    "kube-subnet-manager": "true",
    "backend-type": "{backend}",
    "backend-data": "",
    "public-ip": "{address}",
    "backend-v6-data": "",
    "public-ipv6": "{ipv6}",
}
SOCKETS = {"containerd": "unix:///run/containerd/containerd.sock", "crio": "unix:///run/crio/crio.sock"}


def strange_metadata(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return labels and annotations with a meaning that a node lacks, has with another value, or has from nobody."""
    node_labels = expected.leaves.node_labels

    def judge(name: str, node: Json) -> Iterator[Mismatch]:
        yield from _labels(name, node, expected)
        yield from _annotations(name, node["metadata"].get("annotations") or {}, expected)
        if node_labels is not None and (provider := node["spec"].get("providerID")):
            yield Mismatch(name, "no providerID: the cluster has no cloud", provider)

    mismatches = on_every(expected.nodes, by_name(view.nodes), judge)
    why = "product.yml does not say which nodes have beside those of kubelets (node_labels)"
    return mismatches if node_labels is not None else [*mismatches, unjudged("other labels of Kubernetes' own", why)]


def _own_domain(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == own or domain.endswith(f".{own}") for own in OWN_DOMAINS)


def _labels(name: str, node: Json, expected: ExpectedGuest) -> Iterator[Mismatch]:
    node_labels, reported = expected.leaves.node_labels, node["status"]["nodeInfo"]
    observed: Mapping[str, str] = node["metadata"].get("labels") or {}
    ours = {"{system}": SYSTEM, "{architecture}": str(expected.variables.get("cluster_architecture") or ARCHITECTURE)}
    theirs = {"{system}": reported.get("operatingSystem", ""), "{architecture}": reported.get("architecture", "")}
    words = {"{name}": name, **(theirs if node_labels is None else ours)}
    expected_labels = {label: words.get(value, value) for label, value in KUBELETS.items()}
    for group, labels in (node_labels or {}).items():
        if name in {"node": expected.nodes, "control_plane": expected.control_plane, "worker": expected.workers}[group]:
            expected_labels |= labels
    for label, value in expected_labels.items():
        if label not in observed:
            yield Mismatch(name, f"the label {label}={value}", "no such label")
        elif observed[label] != value:
            yield Mismatch(name, f"the label {label}={value}", f"{label}={observed[label]}")
    for label in sorted(set(observed) - set(expected_labels)) if node_labels is not None else ():
        if _own_domain(label):
            yield Mismatch(name, "no other label of Kubernetes' own", f"{label}={observed[label]}")


def _annotations(name: str, observed: Mapping[str, str], expected: ExpectedGuest) -> Iterator[Mismatch]:
    node_labels, expected_annotations = expected.leaves.node_labels, dict(ANNOTATIONS)
    plugin = expected.plugin
    if plugin is not None and expected.network_plugin == "flannel":
        expected_annotations |= {f"{FLANNEL}{key}": value for key, value in OF_FLANNEL.items()}
    words = {
        "{addresses}": ",".join(expected.addresses_of(name)),
        "{address}": of_family(expected.addresses_of(name), 4),
        "{ipv6}": of_family(expected.addresses_of(name), 6),
        "{socket}": SOCKETS.get(expected.runtime_process, ""),
        "{backend}": "vxlan" if plugin is not None and plugin.tunnel is not None else "",
    }
    for key, text in sorted(expected_annotations.items()):
        value = words.get(text, text)
        reported = observed.get(key, "").replace("unix:///var/run/", "unix:///run/")  # one folder
        if key in observed and value and reported != value:
            yield Mismatch(name, f"the annotation {key}={value}", observed[key])
        elif key not in observed and key in NEEDED:
            yield Mismatch(name, f"the annotation {key}={value}", "no such annotation")
    for key in sorted(set(observed) - set(expected_annotations)):
        if node_labels is not None and (_own_domain(key) or key.startswith(FLANNEL)):
            yield Mismatch(name, "no annotation that changes what is done with the node", f"{key}={observed[key]}")
