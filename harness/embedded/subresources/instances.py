"""Pause, unpause and guestosinfo of VirtualMachineInstances: the part that KubeVirt leaves to the node's agent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.embedded.node.guests import Guests
from harness.embedded.objects import condition, dig, new_condition, phase, without_condition
from harness.embedded.subresources import answers
from harness.embedded.subresources.answers import conflict
from harness.embedded.vmi.conditions import PAUSED
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import VMI

TRIES = 10  # controllers write an instance at the same time
AGENT = "AgentConnected"


def instance(cluster: Cluster, namespace: str, name: str) -> Json:
    """Return a VirtualMachineInstance.

    Raises:
        StatusError: there is none.
    """
    found = cluster.get(VMI, name, namespace)
    if found is None:
        raise answers.not_found(answers.VMI, name)
    return found


def pause(cluster: Cluster, guests: Guests, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Have a running machine stand still.

    Raises:
        StatusError: it does not run, stands still already, or has a probe that would kill it.
    """
    vmi = instance(cluster, namespace, name)
    if phase(vmi) != "Running":
        raise conflict(answers.VMI, name, "VM is not running")
    if dig(vmi, "spec", "livenessProbe") is not None:
        why = "Pausing VMIs with LivenessProbe is currently not supported"
        raise answers.forbidden(answers.VMI, name, why)
    if condition(vmi, PAUSED) is not None:
        raise conflict(answers.VMI, name, "VMI is already paused")
    if not _dry(options):
        guests.pause(vmi["metadata"]["uid"], paused=True)
        _say_paused(cluster, vmi, paused=True)


def unpause(cluster: Cluster, guests: Guests, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Let a machine that stands still go on.

    Raises:
        StatusError: it does not run, or does not stand still.
    """
    vmi = instance(cluster, namespace, name)
    if phase(vmi) != "Running":
        raise conflict(answers.VMI, name, "VMI is not running")
    if condition(vmi, PAUSED) is None:
        raise conflict(answers.VMI, name, "VMI is not paused")
    if not _dry(options):
        guests.pause(vmi["metadata"]["uid"], paused=False)
        _say_paused(cluster, vmi, paused=False)


def _dry(options: Mapping[str, Any]) -> bool:
    return "All" in (options.get("dryRun") or [])


def _say_paused(cluster: Cluster, vmi: Json, *, paused: bool) -> None:
    """Write the condition, again when somebody else was faster."""
    meta = vmi["metadata"]
    for _ in range(TRIES):
        found = instance(cluster, meta["namespace"], meta["name"])
        conditions = without_condition(dig(found, "status", "conditions") or [], PAUSED)
        if paused:
            message = "VMI was paused by user"
            conditions.append(new_condition(PAUSED, "True", "PausedByUser", message, datetime.now(UTC)))
        try:
            cluster.replace(VMI, {**found, "status": {**found["status"], "conditions": conditions}})
        except ApiFailure as failure:
            if not failure.conflict:
                raise answers.internal(failure.message) from failure
        else:
            return
    raise answers.internal(f"{meta['name']} is changed too often to be written")


def guest_os_info(cluster: Cluster, namespace: str, name: str) -> Json:
    """Return what a guest's agent reports of it.

    Raises:
        StatusError: it does not run, or has no agent, as machines here have none but on request (see faults).
    """
    vmi = instance(cluster, namespace, name)
    if phase(vmi) != "Running":
        raise conflict(answers.VMI, name, "VMI is not running")
    if condition(vmi, AGENT) is None:
        raise conflict(answers.VMI, name, "VMI does not have guest agent connected")
    return {"os": dig(vmi, "status", "guestOSInfo") or {}}
