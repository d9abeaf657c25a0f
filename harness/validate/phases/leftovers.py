"""Leftovers: of machines that left a cluster, in its API and on other machines, and on machines that were reset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from harness.kube import Cluster
from harness.kube.resources import CSI_NODE, CSR, ENDPOINT_SLICE, LEASE, NODE, POD
from harness.model import Cell
from harness.spec.models.leaves import ClusterLeaves
from harness.urls import joined
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import by_name
from harness.validate.facts.node import NodeFacts
from harness.validate.facts.programs import RunningPrograms
from harness.validate.findings import Mismatch, differs, on_every, same_set, unjudged
from harness.validate.inspection import MachineState
from harness.validate.layout import absent
from harness.validate.phases.observation import Observation
from harness.validate.topics.etcd import url_of


def gone_by(cell: Cell, index: int) -> tuple[str, ...]:
    """Return the machines that were removed from the cluster or lost in a phase or an earlier one."""
    return tuple(name for phase in cell.phases[: index + 1] for name in (*phase.removed, *phase.lost))


def joined_in(cell: Cell, index: int) -> tuple[str, ...]:
    """Return the machines of a phase's inventory that the one before did not have."""
    if index == 0:
        return ()
    return tuple(name for name in cell.phases[index].machines if name not in cell.phases[index - 1].machines)


def not_joined(before: Observation, after: Observation, joined: tuple[str, ...]) -> list[Mismatch]:
    """Return the machines that were part of the cluster before they joined it, or are not after."""
    was, now = by_name(before.view.nodes), by_name(after.view.nodes)

    def judge(name: str, _: str) -> Iterator[Mismatch]:
        if name in after.expected.nodes:
            yield from differs(f"{name}, before the phase", "is a node", False, name in was)
            ready = {c["type"]: c["status"] for c in now.get(name, {}).get("status", {}).get("conditions", [])}
            yield from differs(f"{name}, after it", "Ready", "True", ready.get("Ready"))
        if name in after.expected.etcd:
            yield from differs(f"{name}, before the phase", "is a member of etcd", False, name in _members(before))
            yield from differs(f"{name}, after it", "is a member of etcd", True, name in _members(after))

    mismatches = (
        [] if before.view.nodes and before.etcd else [Mismatch("before the phase", "nodes and members", "none")]
    )
    return mismatches + on_every(joined, {name: name for name in joined}, judge)


def _members(observation: Observation) -> set[str]:
    return {member.name for view in observation.etcd.values() for member in view.members}


LEASES = "kube-node-lease"  # where every kubelet renews the Lease of its Node
KUBERNETES_SLICES = "kubernetes.io/service-name=kubernetes"
API_PORT = 6443
ETCD_CLIENT_PORT = 2379


@dataclass(frozen=True)
class ApiTraces:
    """What the API knows of machines.

    nodes, leases, csi_nodes: names.  requests: the users whose certificate requests are pending.
    pods: namespace/name by node.  api_servers: endpoints of the Service default/kubernetes.
    kubeconfig_server: the host that the admin's kubeconfig names.
    """

    nodes: frozenset[str]
    leases: frozenset[str]
    csi_nodes: frozenset[str]
    requests: frozenset[str]
    pods: Mapping[str, tuple[str, ...]]
    api_servers: frozenset[str]
    kubeconfig_server: str


def traces_of(api: Cluster) -> ApiTraces:
    """Ask the API for everything that names a machine."""
    pods: dict[str, tuple[str, ...]] = {}
    for pod in api.list(POD).items:
        node = pod["spec"].get("nodeName", "")
        pods[node] = (*pods.get(node, ()), f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    waiting = [csr for csr in api.list(CSR).items if not csr.get("status", {}).get("conditions")]
    slices = api.list(ENDPOINT_SLICE, "default", labels=KUBERNETES_SLICES).items
    return ApiTraces(
        nodes=frozenset(by_name(api.list(NODE).items)),
        leases=frozenset(by_name(api.list(LEASE, LEASES).items)),
        csi_nodes=frozenset(by_name(api.list(CSI_NODE).items)),
        requests=frozenset(str(csr["spec"].get("username", "")) for csr in waiting),
        pods=pods,
        api_servers=frozenset(
            a for endpoint_slice in slices for end in endpoint_slice.get("endpoints") or () for a in end["addresses"]
        ),
        kubeconfig_server=urlsplit(api.server).hostname or "",
    )


def left_in_api(traces: ApiTraces, gone: Mapping[str, str], expected: ExpectedGuest) -> list[Mismatch]:
    """Return what the API still knows of machines that are gone.

    Args:
        gone: their addresses, by name.
    """

    def judge(name: str, address: str) -> Iterator[Mismatch]:
        yield from differs(f"Node {name}", "exists", False, name in traces.nodes)
        yield from differs(f"Lease {LEASES}/{name}", "exists", False, name in traces.leases)
        yield from differs(f"CSINode {name}", "exists", False, name in traces.csi_nodes)
        user = f"system:node:{name}"
        yield from differs(user, "pending certificate request", False, user in traces.requests)
        yield from differs(f"pods on {name}", "pods", (), traces.pods.get(name, ()))
        yield from differs("the kubeconfig", f"server is {name}", False, traces.kubeconfig_server == address)

    there = {expected.addresses[name] for name in expected.control_plane}
    mismatches = same_set("the Service default/kubernetes", "API servers", there, traces.api_servers)
    # the other nodes' traces prove that the API shows such traces at all
    mismatches += same_set(LEASES, "Leases of the nodes", expected.nodes, traces.leases & set(expected.nodes))
    return mismatches + on_every(tuple(gone), gone, judge)


def left_on_others(observation: Observation, gone: Mapping[str, str]) -> list[Mismatch]:
    """Return where machines that stay still refer to machines that are gone.

    Args:
        gone: their addresses, by name.
    """
    expected, host_names = observation.expected, observation.expected.leaves.host_names

    def judge(machine: str, running: RunningPrograms) -> Iterator[Mismatch]:
        named = {name for names in running.hosts.values() for name in names}
        hosts = f"{machine} {host_names or '/etc/hosts'}"
        yield from same_set(hosts, "names of machines that are gone", (), named & set(gone))
        addresses = set(running.hosts) & set(gone.values())
        yield from same_set(hosts, "addresses of machines that are gone", (), addresses)
        if host_names is not None:
            yield from same_set(hosts, "machines", expected.machines, named & set(expected.machines))

    hosts = on_every(expected.machines, observation.running, judge)
    if host_names is None:
        hosts.append(unjudged("whether machines know each other by name", "product.yml names no file (host_names)"))
    return [*hosts, *_wrong_backends(observation), *_wrong_etcd_servers(observation)]


def _wrong_backends(observation: Observation) -> list[Mismatch]:
    """Return where the proxy before the API has other control planes than the inventory, or an older file."""
    expected, local = observation.expected, observation.expected.leaves.local_api
    servers = {name: joined(expected.addresses[name], API_PORT) for name in expected.control_plane}
    if local.backends is None and not any(running.backends for running in observation.running.values()):
        why = "no haproxy runs, and product.yml names no file (local_api.backends)"
        return [unjudged("the control planes behind the local API address", why)]
    having = expected.nodes if local.group == "node" else expected.workers

    def judge(machine: str, running: RunningPrograms) -> Iterator[Mismatch]:
        where = f"{machine} {running.proxy or 'proxy'}"
        if running.backends is None:
            yield Mismatch(where, "a running process", "none")
            return
        there = dict(running.backends.content)
        if local.backends is not None and running.proxy == "haproxy":
            yield from differs(where, "control planes", servers, there)
        else:
            yield from same_set(where, "control planes", servers.values(), there.values())
        yield from differs(where, "started after its file changed", True, running.backends.fresh)

    return on_every(having, observation.running, judge) if having else []


def _wrong_etcd_servers(observation: Observation) -> list[Mismatch]:
    """Return where a running API server uses other etcd servers than expected."""
    expected, used = observation.expected, observation.expected.leaves.etcd.used
    every = {url_of(expected, name, ETCD_CLIENT_PORT) for name in expected.etcd}
    own = {f"https://{joined(expected.loopback, ETCD_CLIENT_PORT)}"}
    if used is None and absent(observation.facts, "kube-apiserver"):
        return [unjudged("the etcd members that API servers use", "no process of that name runs")]

    def judge(machine: str, facts: NodeFacts) -> Iterator[Mismatch]:
        processes = facts.running("kube-apiserver")
        yield from differs(machine, "API server runs", True, bool(processes))
        for process in processes:
            servers = (process.flag("etcd-servers") or "").split(",")
            local = used == "own" or (used is None and set(servers) == own)
            members = own if local and expected.stacked_etcd else every
            yield from same_set(f"{machine} kube-apiserver --etcd-servers", "members", members, servers)

    return on_every(expected.control_plane, observation.facts, judge)


KINDS = ("file", "mount", "link", "route", "unit", "process", "control group", "kernel setting")  # never empty
UNSAID = ("file", "unit", "kernel setting")  # not judged where the product does not say what a reset leaves
PROGRAMS = re.compile(r"(^|/)(kube[a-z-]*|etcd|containerd-shim\S*|conmon|coredns|flanneld|pause)( |$)")  # of a cluster
LISTED = 15  # differences of one machine that a message names


def not_as_before(
    names: Sequence[str],
    before: Mapping[str, MachineState],
    after: Mapping[str, MachineState],
    leaves: ClusterLeaves,
) -> list[Mismatch]:
    """Return how machines differ from what they were before their deployment.

    Args:
        leaves: of the product. Where it does not say what a reset leaves, only what would disturb another cluster is
            judged: no process of the cluster, mount, interface, route, rule or control group may be left.
    """
    allowed = leaves.reset_leaves

    def judge(name: str, now: MachineState) -> Iterator[Mismatch]:
        was = before.get(name)
        if was is None:
            yield Mismatch(name, "a record of the machine before its deployment", "none")
            return
        for kind in KINDS:
            if not was.get(kind) or not now.get(kind):
                yield Mismatch(f"{name}, {kind}", "something to compare", "nothing")
        lines = differences(was, now, allowed)
        more = len(lines) - LISTED
        for line in [*lines[:LISTED], *([f"{more} more differences"] if more > 0 else [])]:
            yield Mismatch(name, "the state before the deployment", line)

    mismatches = on_every(names, after, judge)
    why = "product.yml does not say what a reset leaves (reset_leaves)"
    return mismatches if allowed is not None else [*mismatches, *(unjudged(f"each {kind}", why) for kind in UNSAID)]


def differences(before: MachineState, after: MachineState, allowed: Sequence[str] | None = ()) -> list[str]:
    """Return what one state has that the other has not, one line each, sorted.

    Args:
        allowed: globs of `KIND NAME` that may differ; None: only what is judged of any product may not.
    """
    before, after = (_judged(state, allowed) for state in (before, after))
    lines = []
    for kind in before:
        was, now = before[kind], after[kind]
        lines += [f"{kind} left behind: {name} {now[name]}".rstrip() for name in now.keys() - was.keys()]
        lines += [f"{kind} lost: {name} {was[name]}".rstrip() for name in was.keys() - now.keys()]
        both = was.keys() & now.keys()
        lines += [f"{kind} changed: {name}: {was[name]} -> {now[name]}" for name in both if was[name] != now[name]]
    return sorted(lines)


def _judged(state: MachineState, allowed: Sequence[str] | None) -> MachineState:
    """Return the part of a state that is compared."""
    if allowed is None:
        kept = {kind: names for kind, names in state.items() if kind not in UNSAID}
        commands = {name: value for name, value in state.get("process", {}).items() if PROGRAMS.search(name)}
        return {**kept, "process": commands}
    return {
        kind: {name: value for name, value in names.items() if not _matches(f"{kind} {name}", allowed)}
        for kind, names in state.items()
    }


def _matches(what: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(what, glob) for glob in globs)
