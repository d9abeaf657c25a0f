"""Presence of a machine that once ran: whether it is there, runs, and is still the same. Pure.

A machine is its disk. Another instance with the same disk was restarted; one with another disk is another machine.
https://kubevirt.io/user-guide/compute/run_strategies/ says which machines are started again.

A machine that is killed, replaced or moved in mid-run looks like a failure of the product to whoever only sees tasks
and checks fail. Its instance, launcher and address tell. https://kubevirt.io/user-guide/compute/live_migration/
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.kube.client import Json
from harness.kube.objects import deleting, dig
from harness.machines.kubevirt import launchers

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
    why = (
        launchers.SHUT_DOWN if phase == launchers.SUCCEEDED else str(dig(vmi, "status", "reason") or "no reason given")
    )
    if vm is None:
        return Presence(Standing.LOST, f"its instance is {phase} ({why}), and no VirtualMachine starts another")
    how = strategy(vm)
    if how == ALWAYS or (how == ON_FAILURE and phase != launchers.SUCCEEDED):
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
    if died := launchers.died_of(pod):
        return f"died: {died}"
    if vmi["metadata"].get("deletionTimestamp"):
        return "is being deleted: by a drain of its node, a reaper or a person"
    if status.get("phase") == launchers.SUCCEEDED:
        return f"has ended: {launchers.SHUT_DOWN}"
    if status.get("phase") != "Running":
        return f"is {status.get('phase')}: {status.get('reason') or 'its instance gives no reason'}"
    return _moved(seen, status, pod)


def _moved(seen: Sighting, status: Json, pod: Json | None) -> str:
    active = status.get("activePods") or {}
    if active and seen.launcher and seen.launcher not in active:
        return f"was moved from node {seen.node} to {status.get('nodeName')}: another launcher pod runs it"
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return "lost its launcher pod, although its instance still reports Running"
    address = launchers.address_of(pod)
    return f"has another address: {address or 'none'} instead of {seen.address}" if address != seen.address else ""
