"""Node state: what kubelet, the runtime and etcd keep on disk lets them start once more, and nothing has leaked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from harness.kube import Cluster
from harness.kube.objects import same_setting
from harness.kube.resources import POD
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import Json, value_at
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, differs, on_every, unjudged

MIRROR = "kubernetes.io/config.hash"  # of a static pod's mirror: the id under which kubelet keeps the pod
MOST_PODS = 110  # kubelet's default
LISTED = 5  # leaks of a kind that a message names
# Settings of kubelet that its state must agree with, and Kubernetes' defaults.
POLICIES = {
    "cpu_manager_state": ("cpuManagerPolicy", "none"),
    "memory_manager_state": ("memoryManagerPolicy", "None"),
}
UNSET: tuple[Any, ...] = (None, "", 0, "0s", {}, [])  # what a file of settings has where the default counts


@dataclass(frozen=True)
class NodeState:
    """What is kept on one machine.

    unreadable: why a program could not read a file when it starts, by path; "" where it could.
    policies: of managers, by their file's name.  removed: program and file that it has open, which is gone.
    lost_sockets: on which programs listen, and which are gone.
    command_lines: what the next start of a program has besides those of now, and what it has not.
    reservations: containers by address, by network.  known: ids of sandboxes and containers, None where nothing tells.
    strangers: containers that kubelet has not made.  running: ids that shims or mounts are for, by what that is.
    idle_namespaces, loose_veths: of networks of pods that are gone.  pods: ids of pods by what is there of them.
    static_pods: ids of static pods that run.
    """

    unreadable: Mapping[str, str]
    policies: Mapping[str, str]
    removed: tuple[tuple[str, str], ...]
    lost_sockets: tuple[str, ...]
    command_lines: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    reservations: Mapping[str, Mapping[str, str]]
    known: frozenset[str] | None
    strangers: tuple[str, ...]
    running: Mapping[str, tuple[str, ...]]
    idle_namespaces: tuple[str, ...]
    loose_veths: tuple[str, ...]
    pods: Mapping[str, tuple[str, ...]]
    static_pods: frozenset[str]


def node_state_of(raw: Mapping[str, Any]) -> NodeState:
    """Read what machine/node_state.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    known = raw["containers"]["known"]
    return NodeState(
        unreadable={**raw["checkpoints"], **raw["databases"], **raw["logs"], **raw["endpoints"]},
        policies=raw["policies"],
        removed=tuple((program, path) for program, path in raw["removed"]),
        lost_sockets=tuple(raw["lost_sockets"]),
        command_lines={name: (tuple(more), tuple(less)) for name, (more, less) in raw["command_lines"].items()},
        reservations=raw["reservations"],
        known=None if known is None else frozenset(known),
        strangers=tuple(raw["containers"]["strangers"]),
        running={"shims": tuple(raw["shims"]), "mounts": tuple(raw["task_mounts"])},
        idle_namespaces=tuple(raw["idle_namespaces"]),
        loose_veths=tuple(raw["loose_veths"]),
        pods={what: tuple(ids) for what, ids in raw["pods"].items()},
        static_pods=frozenset(raw["static_pods"]),
    )


States = Mapping[str, NodeState]


def broken_state(
    states: States,
    setups: Mapping[str, MachineSetup],
    settings: Mapping[str, Mapping[str, Any]],
    expected: ExpectedGuest,
) -> list[Mismatch]:
    """Return what would keep a program from starting once more, or let it start otherwise than it runs.

    Args:
        settings: the configuration that each running kubelet reports, by node.
    """

    def judge(name: str, state: NodeState) -> Iterator[Mismatch]:
        for path, why in sorted(state.unreadable.items()):
            if why:
                yield Mismatch(f"{name} {path}", "what the next start of its program can use", why)
        for program, path in state.removed:
            yield Mismatch(
                f"{name} {path}", f"the file that {program} has open", "it was removed, or replaced by another"
            )
        for path in state.lost_sockets:
            yield Mismatch(f"{name} {path}", "the socket on which a program listens", "it was removed")
        for program, (more, less) in state.command_lines.items():
            if more or less:
                words = f"{' '.join(more) or 'nothing'} instead of {' '.join(less) or 'nothing'}"
                yield Mismatch(f"{name} {program}", "the same command line at its next start", words)
        if name in expected.nodes:
            yield from _other_policies(name, state, settings.get(name, {}))
            yield from _other_file(name, setups.get(name), settings.get(name))

    return on_every(expected.machines, states, judge)


def _other_policies(name: str, state: NodeState, running: Mapping[str, Any]) -> Iterator[Mismatch]:
    for file, (setting, default) in POLICIES.items():
        if file in state.policies and running:
            policy = str(running.get(setting) or default)
            yield from differs(f"{name} /var/lib/kubelet/{file}", "policyName", policy, state.policies[file])


def _other_file(name: str, setup: MachineSetup | None, running: Mapping[str, Any] | None) -> Iterator[Mismatch]:
    """Judge whether the file of kubelet's settings says what kubelet runs with, whenever it was written."""
    if setup is not None and setup.unread:
        yield Mismatch(f"{name} kubelet's file", "settings that its next start can use", setup.unread)
    if setup is None or running is None:
        return
    for path, value in _flat(setup.kubelet):
        there = value_at(running, path)
        if (
            value not in UNSET
            and path not in ("kind", "apiVersion")
            and not (there is None or same_setting(value, there))
        ):
            yield Mismatch(f"{name} kubelet's file {path}", f"{there!r}, with which kubelet runs", repr(value))


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def pods_on(api: Cluster) -> dict[str, frozenset[str]]:
    """Return the ids of all pods by node; of a static one also that under which kubelet keeps it."""
    ids_by_node: dict[str, set[str]] = {}
    for pod in api.list(POD).items:
        ids_by_node.setdefault(pod["spec"].get("nodeName", ""), set()).update(_ids(pod))
    return {node: frozenset(ids) for node, ids in ids_by_node.items()}


def _ids(pod: Json) -> Iterator[str]:
    yield str(pod["metadata"]["uid"])
    if MIRROR in pod["metadata"].get("annotations", {}):
        yield str(pod["metadata"]["annotations"][MIRROR])


def leaks(
    states: States,
    setups: Mapping[str, MachineSetup],
    pods: Mapping[str, frozenset[str]],
    expected: ExpectedGuest,
) -> list[Mismatch]:
    """Return what is left on nodes of pods that are gone.

    Args:
        pods: ids of all pods by node, asked for after machines were looked at.
    """

    def judge(name: str, state: NodeState) -> Iterator[Mismatch]:
        if not any(state.pods.values()):
            yield Mismatch(name, "pods with folders, mounts or control groups", "none")
        # A kubelet shows the API a static pod that runs with its next sync, minutes later where the API was away.
        there = pods.get(name, frozenset()) | state.static_pods
        for what, ids in state.pods.items():
            yield from _some(name, f"no {what} of a pod that is gone", set(ids) - there)
        yield from _some(name, "no network namespace without a process", state.idle_namespaces)
        yield from _some(name, "no veth whose other end is on the machine, too", state.loose_veths)
        yield from _some(name, "no container that kubelet has not made", state.strangers)
        if state.known is None:
            yield unjudged(f"{name}: what containers have left", "nothing on the machine tells which there are")
            return
        for what, ids in state.running.items():
            yield from _some(name, f"nothing of a container that is gone: {what}", set(ids) - state.known)
        yield from _reserved(name, state.reservations, state.known, setups.get(name))

    return on_every(expected.nodes, states, judge)


def _some(name: str, requirement: str, leaked: Sequence[str] | set[str]) -> Iterator[Mismatch]:
    if leaked:
        shown = ", ".join(sorted(leaked)[:LISTED])
        more = f" and {len(leaked) - LISTED} more" if len(leaked) > LISTED else ""
        yield Mismatch(name, requirement, f"{shown}{more}")


def _reserved(
    name: str, reservations: Mapping[str, Mapping[str, str]], known: frozenset[str], setup: MachineSetup | None
) -> Iterator[Mismatch]:
    """Judge the addresses that are reserved for pods: each for a sandbox, and enough are left for all pods."""
    most = int(setup.kubelet.get("maxPods") or MOST_PODS) if setup is not None else MOST_PODS
    for network, owners in reservations.items():
        lost = {address for address, container in owners.items() if container not in known}
        where = f"{name} /var/lib/cni/networks/{network}"
        yield from _some(where, "no address reserved for a container that is gone", lost)
        for subnet in _subnets(setup):
            inside = [address for address in lost if ip_network(address).subnet_of(subnet)]
            room = subnet.num_addresses - 3  # without the network's, the gateway's and the last one
            if room >= most > room - len(inside):
                yield Mismatch(where, f"addresses for {most} pods (maxPods)", f"room for {room - len(inside)}")


def _subnets(setup: MachineSetup | None) -> list[Any]:
    """Return the networks that host-local takes addresses of, as the pod network's files say."""
    files = [content for content in setup.cni.values() if isinstance(content, Mapping)] if setup is not None else []
    plugins = [plugin for content in files for plugin in content.get("plugins", [content])]
    ranges = [subnet for plugin in plugins for group in plugin.get("ipam", {}).get("ranges", []) for subnet in group]
    return [ip_network(subnet["subnet"]) for subnet in ranges if "subnet" in subnet]
