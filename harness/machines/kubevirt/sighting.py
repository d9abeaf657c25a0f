"""A machine as it was when it came up, and what became of it: is it there, is it still the same. Pure.

A machine that is killed, replaced or moved in mid-run looks like a failure of the product to whoever only sees tasks
and checks fail. Its instance, launcher and address tell. https://kubevirt.io/user-guide/compute/live_migration/
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.kube.client import Json
from harness.machines.kubevirt import launchers


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
