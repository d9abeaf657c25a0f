"""Launcher pods of machines: which is a machine's, and whether the machine is present, gone or another one.

A machine is its disk. Another instance with the same disk was restarted; one with another disk is another machine.
https://kubevirt.io/user-guide/compute/run_strategies/ says which machines are started again.

A machine that is killed, replaced or moved in mid-run looks like a failure of the product to whoever only sees tasks
and checks fail. Its instance, launcher and address tell. https://kubevirt.io/user-guide/compute/live_migration/
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import deleting, dig
from harness.kube.resources import POD

CREATED_BY = "kubevirt.io/created-by"
# What KubeVirt's masquerade binding gives to every guest (pod.vmNetworkCIDR's default): nobody else reaches it.
MASQUERADED = ipaddress.ip_network("10.0.2.0/24")
OOM_KILLED = "OOMKilled"
SUCCEEDED = "Succeeded"  # of an instance whose guest shut down, or that was deleted with a grace period of 0
SHUT_DOWN = "it shut down, and nobody deleted it: from inside, or because its launcher was evicted or told to go"
NODE_AGENT = "kubevirt.io=virt-handler"


def launcher_pod(cluster: Cluster, namespace: str, vmi: Json) -> Json | None:
    """Return the newest launcher pod of a VMI."""
    pods = cluster.list(POD, namespace, labels=f"{CREATED_BY}={vmi['metadata']['uid']}").items
    return max(pods, key=lambda p: str(p["metadata"]["creationTimestamp"]), default=None)


def launcher_address(cluster: Cluster, namespace: str, vmi: Json) -> str:
    """Return the address of a VMI's launcher pod, "" while it has none."""
    return address_of(launcher_pod(cluster, namespace, vmi))


def address_of(pod: Json | None) -> str:
    """Return a launcher pod's address, "" while it has none."""
    return str(((pod or {}).get("status") or {}).get("podIP") or "")


def ipv6_address_of(pod: Json | None) -> str:
    """Return a launcher pod's IPv6 address, "" while it has none."""
    given = [str(one.get("ip", "")) for one in ((pod or {}).get("status") or {}).get("podIPs") or []]
    return next((one for one in given if ":" in one), "")


def useless(address: str) -> str:
    """Return why nobody else can reach a machine at an address, "" when that is not known to be so."""
    parsed = ipaddress.ip_address(address)
    if parsed.is_link_local:
        return "is link-local"
    if parsed.is_loopback or parsed.is_unspecified:
        return "is not an address of a network"
    return "is the one that masquerade gives every guest" if parsed in MASQUERADED else ""


def waits_for(pod: Json | None) -> str:
    """Return what a pod's containers wait for, as the kubelet says it; "" when they wait for nothing."""
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return f"{waiting['reason']}: {waiting.get('message') or 'no message'}"
    return ""


def died_of(pod: Json | None) -> str:
    """Return how a pod's container ended badly: reason, exit code and last words; "" when none did."""
    for container in _containers(pod):
        for state in ("state", "lastState"):
            ended = (container.get(state) or {}).get("terminated") or {}
            if ended.get("exitCode"):
                said = f": {ended['message'].strip()}" if ended.get("message") else ""
                return f"{ended.get('reason') or 'Error'} (exit code {ended['exitCode']}){said}"
    return ""


def _containers(pod: Json | None) -> list[Json]:
    status = (pod or {}).get("status") or {}
    return [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]


def node_agent(cluster: Cluster, node: str) -> str:
    """Say how KubeVirt's agent on a node is, from its pod; whoever may not look is told so."""
    if not node:
        return "the machine has no node yet"
    try:
        found = cluster.list(POD, labels=NODE_AGENT, fields=f"spec.nodeName={node}").items
    except ApiFailure as refused:
        if not refused.forbidden:
            raise
        return f"this job has no right to look at virt-handler on node {node}"
    if not found:
        return f"no virt-handler pod is on node {node}"
    return "; ".join(_health(pod) for pod in found)


def _health(pod: Json) -> str:
    status = pod.get("status") or {}
    restarts = sum(int(c.get("restartCount") or 0) for c in _containers(pod))
    trouble = waits_for(pod) or died_of(pod)
    said = f", {trouble}" if trouble else ""
    return f"virt-handler pod {pod['metadata']['name']}: {status.get('phase')}, {restarts} restarts{said}"


RUNNING, ENDED = "Running", frozenset({"Failed", "Succeeded"})  # phases of an instance
ALWAYS, ON_FAILURE, ONCE, HALTED = "Always", "RerunOnFailure", "Once", "Halted"


class Standing(StrEnum):
    """How a machine is."""

    RUNNING = "Running"
    STARTING = "Starting"  # or it is started again by itself
    STOPPED = "Stopped"  # somebody has to start it
    LOST = "Lost"  # it does not come back


@dataclass(frozen=True)
class Presence:
    """How a machine is, and what shows it, as the end of a sentence."""

    standing: Standing
    evidence: str


@dataclass(frozen=True)
class KnownMachine:
    """What is known of a machine since it ran: the uids of its instance and of its disk's claim, "" for none."""

    instance: str = ""
    disk: str = ""


def presence(vm: Json | None, vmi: Json | None, known: KnownMachine, disk: str) -> Presence:
    """Return how a machine is.

    Args:
        vm: its VirtualMachine; None where there is none, as with an instance that somebody made by itself.
        vmi: its instance.  known: as it was; nothing is lost that was never there.
        disk: the uid of the claim that the instance has now.
    """
    if vmi is None:
        return _without_instance(vm, known)
    phase = str(dig(vmi, "status", "phase") or "")
    if phase in ENDED:
        return _ended(vm, vmi, phase)
    if phase != RUNNING or deleting(vmi):
        return Presence(Standing.STARTING, "its instance is being stopped" if deleting(vmi) else "its instance starts")
    if known.instance and known.instance != vmi["metadata"]["uid"] and (known.disk != disk or not disk):
        what = "its instance was made anew with another disk" if disk else "its instance was made anew, without a disk"
        return Presence(Standing.LOST, f"{what} (claim {disk or 'none'} instead of {known.disk or 'none'})")
    return Presence(Standing.RUNNING, f"it runs on node {dig(vmi, 'status', 'nodeName') or 'unknown'}")


def strategy(vm: Json) -> str:
    """Return a VirtualMachine's run strategy, also where it has the older field `running`."""
    named = dig(vm, "spec", "runStrategy")
    return str(named) if named else ALWAYS if dig(vm, "spec", "running") else HALTED


def _without_instance(vm: Json | None, known: KnownMachine) -> Presence:
    if vm is None:
        gone = "its VirtualMachine and its instance are gone"
        return Presence(Standing.LOST if known.instance else Standing.STOPPED, gone)
    if deleting(vm):
        return Presence(Standing.STOPPED, "its VirtualMachine is being deleted")
    how, word = strategy(vm), str(dig(vm, "status", "printableStatus") or "no status yet")
    if how == ONCE and known.instance:
        return Presence(Standing.LOST, "its instance is gone, and run strategy Once starts no other")
    if how in {ALWAYS, ON_FAILURE, ONCE}:
        return Presence(Standing.STARTING, f"it has no instance: {word}")
    return Presence(Standing.STOPPED, f"it has no instance, and run strategy {how} starts none: {word}")


def _ended(vm: Json | None, vmi: Json, phase: str) -> Presence:
    why = SHUT_DOWN if phase == SUCCEEDED else str(dig(vmi, "status", "reason") or "no reason given")
    if vm is None:
        return Presence(Standing.LOST, f"its instance is {phase} ({why}), and no VirtualMachine starts another")
    how = strategy(vm)
    if how == ALWAYS or (how == ON_FAILURE and phase != SUCCEEDED):
        return Presence(Standing.STARTING, f"its instance is {phase} ({why}) and is started again")
    standing = Standing.LOST if how == ONCE else Standing.STOPPED
    return Presence(standing, f"its instance is {phase} ({why}), and run strategy {how} does not start it again")


@dataclass(frozen=True)
class Sighting:
    """Which instance and launcher a machine is: their uids, its node and its address."""

    machine: str
    instance: str
    launcher: str
    node: str
    address: str


def change(seen: Sighting, vmi: Json | None, pod: Json | None) -> str:
    """Say what became of a machine, "" where it is what it was.

    Args:
        vmi: its instance now.  pod: the newest launcher of that.
    """
    if vmi is None:
        return "is gone: its VirtualMachineInstance was deleted"
    if vmi["metadata"]["uid"] != seen.instance:
        return "was restarted: it has another VirtualMachineInstance than before, with an empty memory"
    status = vmi.get("status") or {}
    if died := died_of(pod):
        return f"died: {died}"
    if vmi["metadata"].get("deletionTimestamp"):
        return "is being deleted: by a drain of its node, a reaper or a person"
    if status.get("phase") == SUCCEEDED:
        return f"has ended: {SHUT_DOWN}"
    if status.get("phase") != "Running":
        return f"is {status.get('phase')}: {status.get('reason') or 'its instance gives no reason'}"
    return _moved(seen, status, pod)


def _moved(seen: Sighting, status: Json, pod: Json | None) -> str:
    active = status.get("activePods") or {}
    if active and seen.launcher and seen.launcher not in active:
        return f"was moved from node {seen.node} to {status.get('nodeName')}: another launcher pod runs it"
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return "lost its launcher pod, although its instance still reports Running"
    address = address_of(pod)
    return f"has another address: {address or 'none'} instead of {seen.address}" if address != seen.address else ""
