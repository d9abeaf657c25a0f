"""Lifecycle of machines: start, stop, restart, pause, reboot and reset, as KubeVirt's API offers them.

What is asked of a VirtualMachine is written into its spec or status, for the VM controller to act upon; what is asked
of an instance is what KubeVirt leaves to the node's agent. Which run strategy allows what, and in which words the rest
is refused, is KubeVirt 1.9's (pkg/virt-api/rest).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.embedded.node.guests import Guests
from harness.embedded.subresources import errors
from harness.embedded.subresources.errors import conflict, existing
from harness.embedded.vm.status import START, STOP, is_final, run_strategy
from harness.embedded.vmi.status import PAUSED
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import condition, dig, new_condition, phase, without_condition
from harness.kube.resources import POD, VM, VMI

NOT_RUNNING = "VM is not running"
JSON_PATCH = "application/json-patch+json"
SWIFT_SECONDS = 1  # of grace for a launcher whose machine is to be restarted at once
UNTESTED = 422  # what the API answers when a patch's `test` does not hold
TRIES = 10  # controllers write an instance at the same time
AGENT = "AgentConnected"


def start(cluster: Cluster, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Start a machine that does not run.

    Raises:
        StatusError: it runs, or its run strategy starts it by itself.
    """
    vm, vmi = existing(cluster, VM, namespace, name), cluster.get(VMI, name, namespace)
    if vmi is not None and not is_final(vmi) and phase(vmi) not in {"", "Unknown"}:
        raise conflict(errors.VM, name, "VM is already running")
    if options.get("paused"):
        raise errors.bad_request("machines cannot be started paused here")
    strategy = run_strategy(vm)
    if strategy in {"Always", "Once"}:
        raise conflict(errors.VM, name, f"{strategy} does not support manual start requests")
    if strategy == "Halted":
        _patch(cluster, vm, _switch_operations(vm, wanted=True), options)
        return
    if strategy == "RerunOnFailure" and phase(vmi) == "Failed":
        raise conflict(errors.VM, name, f"{strategy} does not support starting VM from failed state")
    ended = [_stop_request(vmi)] if vmi is not None and is_final(vmi) else []
    _request(cluster, vm, [*ended, {"action": START}], options)


def stop(cluster: Cluster, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Stop a machine that runs; one with strategy Always or Once becomes Halted.

    Raises:
        StatusError: it does not run.
    """
    vm, vmi = existing(cluster, VM, namespace, name), cluster.get(VMI, name, namespace)
    runs = vmi is not None and not is_final(vmi)
    strategy, grace = run_strategy(vm), options.get("gracePeriod")
    if strategy not in {"Always", "Once"} and not runs:
        raise conflict(errors.VM, name, NOT_RUNNING)
    before = dig(vmi, "spec", "terminationGracePeriodSeconds")
    if strategy == "Halted" and (grace is None or (before is not None and grace >= before)):
        why = "Halted only supports manual stop requests with a shorter graceperiod"
        raise conflict(errors.VM, name, why)
    if runs and vmi is not None and grace is not None:
        path = "/spec/terminationGracePeriodSeconds"
        operation = "add" if before is None else "replace"
        _send(cluster, VMI.path(namespace, name), [{"op": operation, "path": path, "value": grace}], options)
    if strategy in {"Always", "Once"}:
        _patch(cluster, vm, _switch_operations(vm, wanted=False), options)
    elif vmi is not None:
        _request(cluster, vm, [_stop_request(vmi)], options)


def restart(cluster: Cluster, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Stop a machine that runs and start it again; with a grace period of 0 at once.

    Raises:
        StatusError: it does not run, or its run strategy would not start it again.
    """
    grace = options.get("gracePeriodSeconds")
    if grace is not None and grace > 0:
        raise errors.bad_request("For force restart, only gracePeriod=0 is supported for now")
    if grace is not None and grace < 0:
        raise errors.bad_request("gracePeriod has to be greater or equal to 0")
    vm = existing(cluster, VM, namespace, name)
    strategy = run_strategy(vm)
    if strategy in {"Halted", "Once"}:
        raise conflict(errors.VM, name, f"RunStategy {strategy} does not support manual restart requests")
    vmi = cluster.get(VMI, name, namespace)
    if vmi is None:
        raise conflict(errors.VM, name, f"{NOT_RUNNING}: Halted")
    _request(cluster, vm, [_stop_request(vmi), {"action": START}], options)
    if grace == 0:
        _end_launcher(cluster, vmi)


def _end_launcher(cluster: Cluster, vmi: Json) -> None:
    namespace = vmi["metadata"]["namespace"]
    labels = f"kubevirt.io=virt-launcher,kubevirt.io/created-by={vmi['metadata']['uid']}"
    for pod in cluster.list(POD, namespace, labels=labels, fields="status.phase=Running").items[:1]:
        cluster.delete(POD, pod["metadata"]["name"], namespace, grace=SWIFT_SECONDS)


def _stop_request(vmi: Json) -> Json:
    return {"action": STOP, "uid": vmi["metadata"]["uid"]}


def _switch_operations(vm: Json, *, wanted: bool) -> list[Json]:
    """Return the patch that switches a machine on or off in its spec."""
    strategy = dig(vm, "spec", "runStrategy")
    key, value = ("runStrategy", "Always" if wanted else "Halted") if strategy is not None else ("running", wanted)
    path = f"/spec/{key}"
    return [
        {"op": "test", "path": path, "value": dig(vm, "spec", key)},
        {"op": "replace", "path": path, "value": value},
    ]


def _request(cluster: Cluster, vm: Json, requests: list[Json], options: Mapping[str, Any]) -> None:
    """Leave requests for the VM controller; a lone request to stop takes the place of those that are there."""
    path, waiting = "/status/stateChangeRequests", dig(vm, "status", "stateChangeRequests")
    alone = len(requests) == 1 and requests[0]["action"] == STOP
    if waiting and not alone:
        raise errors.internal("unable to complete request: stop/start already underway")
    if not vm.get("status"):
        operations: list[Json] = [{"op": "add", "path": "/status", "value": {"stateChangeRequests": requests}}]
    else:
        change = {"op": "replace" if waiting else "add", "path": path, "value": requests}
        operations = [{"op": "test", "path": path, "value": waiting}, change]
    if dig(vm, "status", "startFailure") is not None:
        operations.append({"op": "remove", "path": "/status/startFailure"})
    _patch(cluster, vm, operations, options, subresource="status")


def _patch(
    cluster: Cluster, vm: Json, operations: list[Json], options: Mapping[str, Any], *, subresource: str | None = None
) -> None:
    meta = vm["metadata"]
    try:
        _send(cluster, VM.path(meta["namespace"], meta["name"], subresource), operations, options)
    except ApiFailure as failure:
        if failure.code == UNTESTED:  # the machine has changed meanwhile
            raise conflict(errors.VM, meta["name"], failure.message) from failure
        raise errors.internal(failure.message) from failure


def _send(cluster: Cluster, path: str, operations: list[Json], options: Mapping[str, Any]) -> None:
    query = {"dryRun": "All"} if "All" in (options.get("dryRun") or []) else {}
    cluster.request("PATCH", path, body=operations, query=query, content_type=JSON_PATCH)


def _running_instance(cluster: Cluster, namespace: str, name: str, otherwise: str = "VMI is not running") -> Json:
    """Return an instance that runs, or refuse."""
    vmi = existing(cluster, VMI, namespace, name)
    if phase(vmi) != "Running":
        raise conflict(errors.VMI, name, otherwise)
    return vmi


def pause(cluster: Cluster, guests: Guests, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Have a running machine stand still.

    Raises:
        StatusError: it does not run, stands still already, or has a probe that would kill it.
    """
    vmi = _running_instance(cluster, namespace, name, "VM is not running")
    if dig(vmi, "spec", "livenessProbe") is not None:
        raise errors.forbidden(errors.VMI, name, "Pausing VMIs with LivenessProbe is currently not supported")
    if condition(vmi, PAUSED) is not None:
        raise conflict(errors.VMI, name, "VMI is already paused")
    _set_paused(cluster, guests, vmi, options, paused=True)


def unpause(cluster: Cluster, guests: Guests, namespace: str, name: str, options: Mapping[str, Any]) -> None:
    """Let a machine that stands still go on.

    Raises:
        StatusError: it does not run, or does not stand still.
    """
    vmi = _running_instance(cluster, namespace, name)
    if condition(vmi, PAUSED) is None:
        raise conflict(errors.VMI, name, "VMI is not paused")
    _set_paused(cluster, guests, vmi, options, paused=False)


def soft_reboot(cluster: Cluster, guests: Guests, namespace: str, name: str, _: Mapping[str, Any]) -> None:
    """Ask a running machine to reboot.

    Raises:
        StatusError: it does not run, or stands still.
    """
    vmi = _running_instance(cluster, namespace, name, "VM is not running")
    if condition(vmi, PAUSED) is not None:
        raise conflict(errors.VMI, name, "VMI is paused")
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
        raise errors.bad_request(f"Failed to reset non-running VMI with phase {phase(vmi)}: {why}")
    guests.reset(vmi["metadata"]["uid"])


def _set_paused(cluster: Cluster, guests: Guests, vmi: Json, options: Mapping[str, Any], *, paused: bool) -> None:
    """Pause a machine or let it go on, and write the condition; again when somebody else was faster."""
    if "All" in (options.get("dryRun") or []):
        return
    meta = vmi["metadata"]
    guests.pause(meta["uid"], paused=paused)
    for _ in range(TRIES):
        instance = existing(cluster, VMI, meta["namespace"], meta["name"])
        conditions = without_condition(dig(instance, "status", "conditions") or [], PAUSED)
        if paused:
            message = "VMI was paused by user"
            conditions.append(new_condition(PAUSED, "True", "PausedByUser", message, datetime.now(UTC)))
        try:
            cluster.replace(VMI, {**instance, "status": {**instance["status"], "conditions": conditions}})
        except ApiFailure as failure:
            if not failure.conflict:
                raise errors.internal(failure.message) from failure
        else:
            return
    raise errors.internal(f"{meta['name']} is changed too often to be written")


def guest_os_info(cluster: Cluster, namespace: str, name: str) -> Json:
    """Return what a guest's agent reports of it.

    Raises:
        StatusError: it does not run, or has no agent, as machines here have none but on request (see faults).
    """
    vmi = _running_instance(cluster, namespace, name)
    if condition(vmi, AGENT) is None:
        raise conflict(errors.VMI, name, "VMI does not have guest agent connected")
    return {"os": dig(vmi, "status", "guestOSInfo") or {}}
