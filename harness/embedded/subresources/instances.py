"""What is done to VirtualMachineInstances that run: the part of the API that KubeVirt leaves to the node's agent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.embedded.node.guests import Guests
from harness.embedded.subresources import answers
from harness.embedded.subresources.answers import conflict, existing
from harness.embedded.vmi.status import PAUSED
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import condition, dig, new_condition, phase, without_condition
from harness.kube.resources import VMI

TRIES = 10  # controllers write an instance at the same time
AGENT = "AgentConnected"


def _running(cluster: Cluster, namespace: str, name: str, otherwise: str = "VMI is not running") -> Json:
    """Return an instance that runs, or refuse."""
    vmi = existing(cluster, VMI, namespace, name)
    if phase(vmi) != "Running":
        raise conflict(answers.VMI, name, otherwise)
    return vmi


def pause(cluster: Cluster, guests: Guests, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Have a running machine stand still.

    Raises:
        StatusError: it does not run, stands still already, or has a probe that would kill it.
    """
    vmi = _running(cluster, namespace, name, "VM is not running")
    if dig(vmi, "spec", "livenessProbe") is not None:
        raise answers.forbidden(answers.VMI, name, "Pausing VMIs with LivenessProbe is currently not supported")
    if condition(vmi, PAUSED) is not None:
        raise conflict(answers.VMI, name, "VMI is already paused")
    _switch(cluster, guests, vmi, options, paused=True)


def unpause(cluster: Cluster, guests: Guests, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Let a machine that stands still go on.

    Raises:
        StatusError: it does not run, or does not stand still.
    """
    vmi = _running(cluster, namespace, name)
    if condition(vmi, PAUSED) is None:
        raise conflict(answers.VMI, name, "VMI is not paused")
    _switch(cluster, guests, vmi, options, paused=False)


def soft_reboot(cluster: Cluster, guests: Guests, namespace: str, name: str, _: Mapping[str, Any]) -> None:
    """Ask a running machine to reboot.

    Raises:
        StatusError: it does not run, or stands still.
    """
    vmi = _running(cluster, namespace, name, "VM is not running")
    if condition(vmi, PAUSED) is not None:
        raise conflict(answers.VMI, name, "VMI is paused")
    guests.reboot(vmi["metadata"]["uid"])


def reset(cluster: Cluster, guests: Guests, namespace: str, name: str, _: Mapping[str, Any]) -> None:
    """Restart a running machine without warning, as by the button of that name.

    Raises:
        StatusError: it does not run.
    """
    vmi = existing(cluster, VMI, namespace, name)
    if phase(vmi) != "Running":
        instead = f"phase is {phase(vmi)} instead of Running or Scheduled"
        why = f"Unable to connect to VirtualMachineInstance because {instead}"
        raise answers.bad_request(f"Failed to reset non-running VMI with phase {phase(vmi)}: {why}")
    guests.reset(vmi["metadata"]["uid"])


def _switch(cluster: Cluster, guests: Guests, vmi: Json, options: Mapping[str, Any], *, paused: bool) -> None:
    """Pause a machine or let it go on, and write the condition; again when somebody else was faster."""
    if "All" in (options.get("dryRun") or []):
        return
    meta = vmi["metadata"]
    guests.pause(meta["uid"], paused=paused)
    for _ in range(TRIES):
        found = existing(cluster, VMI, meta["namespace"], meta["name"])
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
    vmi = _running(cluster, namespace, name)
    if condition(vmi, AGENT) is None:
        raise conflict(answers.VMI, name, "VMI does not have guest agent connected")
    return {"os": dig(vmi, "status", "guestOSInfo") or {}}
