"""What must be left of machines that went out of a cluster (nothing), and what must have come with new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from harness.kube import Cluster
from harness.kube.resources import CSI_NODE, CSR, ENDPOINT_SLICE, LEASE, NODE, POD
from harness.model import Cell
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.cluster import by_name
from harness.validate.judge.etcd import url_of
from harness.validate.judge.mismatch import Mismatch, differs, on_every, same_set
from harness.validate.phases.observation import Observation

LEASES = "kube-node-lease"  # where every kubelet renews the Lease of its Node
KUBERNETES_SLICES = "kubernetes.io/service-name=kubernetes"
API_PORT = 6443
ETCD_CLIENT_PORT = 2379


@dataclass(frozen=True)
class Traces:
    """What the API has of machines.

    nodes, leases, csi_nodes: names.  requests: certificate requests that wait for an answer, by who asks.
    pods: namespace/name by node.  api_servers: addresses that the Service default/kubernetes leads to.
    kubeconfig_server: the host that the admin's kubeconfig names.
    """

    nodes: frozenset[str]
    leases: frozenset[str]
    csi_nodes: frozenset[str]
    requests: frozenset[str]
    pods: Mapping[str, tuple[str, ...]]
    api_servers: frozenset[str]
    kubeconfig_server: str


def traces_of(api: Cluster) -> Traces:
    """Ask the API for everything that is named after a machine."""
    pods: dict[str, tuple[str, ...]] = {}
    for pod in api.list(POD).items:
        node = pod["spec"].get("nodeName", "")
        pods[node] = (*pods.get(node, ()), f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    waiting = [csr for csr in api.list(CSR).items if not csr.get("status", {}).get("conditions")]
    slices = api.list(ENDPOINT_SLICE, "default", labels=KUBERNETES_SLICES).items
    return Traces(
        nodes=frozenset(by_name(api.list(NODE).items)),
        leases=frozenset(by_name(api.list(LEASE, LEASES).items)),
        csi_nodes=frozenset(by_name(api.list(CSI_NODE).items)),
        requests=frozenset(str(csr["spec"].get("username", "")) for csr in waiting),
        pods=pods,
        api_servers=frozenset(a for one in slices for end in one.get("endpoints") or () for a in end["addresses"]),
        kubeconfig_server=urlsplit(api.server).hostname or "",
    )


def gone_by(cell: Cell, index: int) -> tuple[str, ...]:
    """Return the machines that a phase, or one before it, took out of the cluster or that were lost."""
    return tuple(name for phase in cell.phases[: index + 1] for name in (*phase.removed, *phase.lost))


def joined_in(cell: Cell, index: int) -> tuple[str, ...]:
    """Return the machines that the inventory of a phase names and that of the phase before did not."""
    if index == 0:
        return ()
    return tuple(name for name in cell.phases[index].machines if name not in cell.phases[index - 1].machines)


def left_in_api(traces: Traces, gone: Mapping[str, str], expected: ExpectedGuest) -> list[Mismatch]:
    """Return what the API still has of machines that are gone.

    Args:
        gone: their addresses, by name.
    """

    def judge(name: str, address: str) -> list[Mismatch]:
        found = differs(f"Node {name}", "exists", False, name in traces.nodes)
        found += differs(f"Lease {LEASES}/{name}", "exists", False, name in traces.leases)
        found += differs(f"CSINode {name}", "exists", False, name in traces.csi_nodes)
        found += differs(
            f"system:node:{name}", "waits for a certificate", False, f"system:node:{name}" in traces.requests
        )
        found += differs(f"pods on {name}", "pods", (), traces.pods.get(name, ()))
        return found + differs("the kubeconfig", f"server is {name}", False, traces.kubeconfig_server == address)

    there = {expected.addresses[name] for name in expected.control_plane}
    found = same_set("the Service default/kubernetes", "API servers", there, traces.api_servers)
    # the well nodes' own traces prove that there is something to see at all
    found += same_set(LEASES, "Leases of the nodes", expected.nodes, traces.leases & set(expected.nodes))
    return found + on_every(tuple(gone), gone, judge)


def left_on_others(seen: Observation, gone: Mapping[str, str]) -> list[Mismatch]:
    """Return what machines that stay still know of machines that are gone, by what they run and read.

    Args:
        gone: their addresses, by name.
    """
    expected = seen.expected
    servers = {name: f"{expected.addresses[name]}:{API_PORT}" for name in expected.control_plane}

    def judge(machine: str, running: Any) -> list[Mismatch]:
        named = {name for names in running.hosts.values() for name in names}
        found = same_set(f"{machine} /etc/hosts", "names of machines that are gone", (), named & set(gone))
        addresses = set(running.hosts) & set(gone.values())
        found += same_set(f"{machine} /etc/hosts", "addresses of machines that are gone", (), addresses)
        found += same_set(f"{machine} /etc/hosts", "machines", expected.machines, named & set(expected.machines))
        if machine not in expected.nodes:
            return found
        if running.backends is None:
            return [*found, Mismatch(f"{machine} haproxy", "a running process", "none")]
        found += differs(f"{machine} haproxy", "control planes", servers, dict(running.backends.content))
        return found + differs(f"{machine} haproxy", "began after its file changed", True, running.backends.fresh)

    return on_every(expected.machines, seen.running, judge) + _wrong_etcd_servers(seen)


def _wrong_etcd_servers(seen: Observation) -> list[Mismatch]:
    """Return where a running API server speaks with other members of etcd than there are."""
    expected = seen.expected
    own = {f"https://127.0.0.1:{ETCD_CLIENT_PORT}"}
    all_ = {url_of(expected, name, ETCD_CLIENT_PORT) for name in expected.etcd}

    def judge(machine: str, facts: Any) -> list[Mismatch]:
        found: list[Mismatch] = []
        for process in facts.running("kube-apiserver"):
            servers = set((process.flag("etcd-servers") or "").split(","))
            found += same_set(
                f"{machine} kube-apiserver --etcd-servers", "members", own if expected.stacked_etcd else all_, servers
            )
        return found or differs(machine, "API server runs", True, bool(facts.running("kube-apiserver")))

    return on_every(expected.control_plane, seen.facts, judge)


def not_joined(before: Observation | None, after: Observation, joined: tuple[str, ...]) -> list[Mismatch]:
    """Return the machines that were part of the cluster before they joined it, or are not after."""
    if before is None:
        return [Mismatch("before the phase", "a record of the nodes", "none")]

    def judge(name: str, _: str) -> list[Mismatch]:
        was, now = by_name(before.view.nodes), by_name(after.view.nodes)
        found: list[Mismatch] = []
        if name in after.expected.nodes:
            found += differs(f"{name}, before the phase", "is a node", False, name in was)
            ready = {c["type"]: c["status"] for c in now.get(name, {}).get("status", {}).get("conditions", [])}
            found += differs(f"{name}, after it", "Ready", "True", ready.get("Ready"))
        if name in after.expected.etcd:
            found += differs(f"{name}, before the phase", "is a member of etcd", False, name in _members(before))
            found += differs(f"{name}, after it", "is a member of etcd", True, name in _members(after))
        return found

    found = [] if before.view.nodes and before.etcd else [Mismatch("before the phase", "nodes and members", "none")]
    return found + on_every(joined, {name: name for name in joined}, judge)


def _members(seen: Observation) -> set[str]:
    return {member.name for view in seen.etcd.values() for member in view.members}
