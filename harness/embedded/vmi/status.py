"""Status of a VirtualMachineInstance: phases, conditions, interfaces and volumes.

What the node agent writes (Running, how it ended, why its machine does not boot) is in vmi/agent.py; of that, the
conditions of live migration are here, as virt-handler v1.9.0 words them. Nothing is ever migrated here. Who reads
an instance finds the conditions all the same, as on every instance that runs.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.embedded.vm.instance import CONSUMER_PHASES, USABLE_PHASES, claim_name, claim_names, data_volume_of
from harness.embedded.vm.status import PVC_NOT_FOUND, is_final
from harness.embedded.vmi.launcher import IMAGE, in_mib, memory_overhead
from harness.kube.client import Json
from harness.kube.objects import (
    condition,
    deleting,
    dig,
    is_condition,
    new_condition,
    phase,
    stamp,
    with_condition,
    without_condition,
)

UNPAUSED = "kubevirt.io/virtual-machine-unpaused"
PAUSED = "Paused"
UNTIMED: Json = {"lastProbeTime": None, "lastTransitionTime": None}  # of conditions whose turn KubeVirt does not time
IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff"})
INTERFACE, DISKS, NEITHER = "InterfaceNotLiveMigratable", "DisksNotLiveMigratable", "NotMigratable"
BOUND_TO_NODE = "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network"
NOT_SHARED = "live migration requires that all PVCs must be shared (using ReadWriteMany access mode)"
NODE_LABEL = "kubevirt.io/nodeName"


@dataclass(frozen=True)
class SyncError:
    """Why an instance cannot go on: a condition's reason and message."""

    reason: str
    message: str


def next_status(
    vmi: Json, pod: Json | None, moment: datetime, error: SyncError | None, data_volumes: Sequence[Json] = ()
) -> Json:
    """Return the whole status of an instance.

    Args:
        pod: its launcher.
        error: why it could not be brought on.
        data_volumes: those that fill its volumes.
    """
    status = copy.deepcopy(vmi.get("status") or {})
    before = phase(vmi)
    after = _next_phase(vmi, pod)
    if after != before:
        enter(status, after, moment)
    if pod is not None:
        status["activePods"] = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")}
    elif status.get("activePods"):
        status["activePods"] = {}
    if after == "Scheduling" and before in {"", "Pending"} and pod is not None:
        status.setdefault("memory", {})["memoryOverhead"] = in_mib(memory_overhead(vmi["spec"]))
        status["launcherContainerImageVersion"] = IMAGE
    elif before == "Scheduling" and pod is not None and dig(pod, "status", "qosClass"):
        status["qosClass"] = pod["status"]["qosClass"]
    conditions = ready(status.get("conditions") or [], after, pod, moment)
    conditions = volumes_ready(conditions, data_volumes)
    conditions = scheduled(conditions, before, pod)
    conditions = synchronized(conditions, error, moment)
    if conditions:
        status["conditions"] = conditions
    return status


def enter(status: Json, new: str, moment: datetime) -> None:
    """Set a phase and write down when."""
    status["phase"] = new
    transitions = status.setdefault("phaseTransitionTimestamps", [])
    if all(t["phase"] != new for t in transitions):
        transitions.append({"phase": new, "phaseTransitionTimestamp": stamp(moment)})


def _next_phase(vmi: Json, pod: Json | None) -> str:
    now = phase(vmi) or "Pending"
    if is_final(vmi):
        return now
    if pod is None:
        return "Failed" if deleting(vmi) or now in {"Scheduling", "Scheduled", "Running"} else now
    if phase(pod) in {"Failed", "Succeeded"}:
        return "Failed"
    if now == "Pending":
        return "Scheduling"
    containers = dig(pod, "status", "containerStatuses")
    runs = phase(pod) == "Running" and containers and all(c.get("ready") for c in containers)
    return "Scheduled" if now == "Scheduling" and runs and not deleting(pod) else now


def add_placement(status: Json, vmi: Json, pod: Json, claims: dict[str, Json]) -> None:
    """Add what an instance gets when it becomes Scheduled: its node, interfaces, volumes; `claims` by name."""
    status["nodeName"] = pod["spec"]["nodeName"]
    status["migrationTransport"] = "Unix"
    status["interfaces"] = [
        {"name": i["name"], "podInterfaceName": f"eth{n}"}
        for n, i in enumerate(dig(vmi, "spec", "domain", "devices", "interfaces") or [])
    ]
    status["volumeStatus"] = [
        _volume_status(v, claims) for v in sorted(vmi["spec"].get("volumes") or [], key=lambda v: str(v["name"]))
    ]


def _volume_status(volume: Json, claims: dict[str, Json]) -> Json:
    name = claim_name(volume)
    entry: Json = {"name": volume["name"], "target": ""}
    claim = claims.get(str(name))
    if claim is not None:
        entry["persistentVolumeClaimInfo"] = {
            "claimName": name,
            "accessModes": dig(claim, "spec", "accessModes") or [],
            "volumeMode": dig(claim, "spec", "volumeMode") or "Filesystem",
            "capacity": dig(claim, "status", "capacity") or {},
            "requests": dig(claim, "spec", "resources", "requests") or {},
            "filesystemOverhead": "0.06",
        }
    return entry


def ready(conditions: list[Json], after: str, pod: Json | None, moment: datetime) -> list[Json]:
    """Return an instance's conditions with Ready: its pod's, or why it is not ready in the phase `after`."""
    known = condition(pod, "Ready")
    if pod is None:
        why = "PodNotExists", "virt-launcher pod has not yet been scheduled"
    elif deleting(pod):
        why = "PodTerminating", "virt-launcher pod is terminating"
    elif after != "Running":
        why = "GuestNotRunning", "Guest VM is not reported as running"
    elif known is None:
        why = "PodConditionMissing", "virt-launcher pod is missing the Ready condition"
    else:
        new: Json = {k: known[k] for k in ("type", "status", "reason", "message", "lastTransitionTime") if k in known}
        return with_condition(conditions, {**new, "lastProbeTime": known.get("lastProbeTime")})
    return with_condition(conditions, new_condition("Ready", "False", *why, moment))


def scheduled(conditions: list[Json], before: str, pod: Json | None) -> list[Json]:
    """Mirror an unschedulable pod's condition; its message is not refreshed, and it goes when the pod has a place."""
    known = condition(pod, "PodScheduled")
    if before == "Scheduling" and known is not None and known["status"] == "False":
        mirrored = any(c["type"] == "PodScheduled" for c in conditions)
        return conditions if mirrored else [*conditions, copy.deepcopy(known)]
    return without_condition(conditions, "PodScheduled")


def synchronized(conditions: list[Json], error: SyncError | None, moment: datetime) -> list[Json]:
    """Return an instance's conditions with Synchronized as long as it cannot go on."""
    if error is None:
        return without_condition(conditions, "Synchronized")
    new = new_condition("Synchronized", "False", error.reason, error.message, moment, probed=False)
    return with_condition(conditions, new)


def volumes_ready(conditions: list[Json], data_volumes: Sequence[Json]) -> list[Json]:
    """Return an instance's conditions with DataVolumesReady, which nothing changes once the volumes are gone."""
    if not data_volumes:
        return conditions
    states = [str((condition(dv, "Ready") or {}).get("status", "Unknown")) for dv in data_volumes]
    status = next((state for state in ("False", "Unknown") if state in states), "True")
    message = "All of the VMI's DVs are bound and ready" if status == "True" else "Not all of the VMI's DVs are ready"
    reason = "AllDVsReady" if status == "True" else "NotAllDVsReady"
    new = {"type": "DataVolumesReady", "status": status, "reason": reason, "message": message, **UNTIMED}
    return with_condition(conditions, new)


def image_error(pod: Json) -> SyncError | None:
    """Return why a launcher's container waits for its image, None when none does."""
    for container in dig(pod, "status", "containerStatuses") or []:
        waiting = dig(container, "state", "waiting") or {}
        if waiting.get("reason") in IMAGE_ERRORS:
            return SyncError(waiting["reason"], waiting.get("message", ""))
    return None


def unpaused_condition(vmi: Json, pod: Json, moment: datetime) -> list[Json] | None:
    """Return the condition by which a pod's readiness gate follows its instance, as a list; None when it does."""
    paused = is_condition(vmi, PAUSED, "True")
    status, reason, message = ("False", "Paused", "paused") if paused else ("True", "NotPaused", "not paused")
    if is_condition(pod, UNPAUSED, status):
        return None
    return [new_condition(UNPAUSED, status, reason, f"the virtual machine is {message}", moment)]


def with_migratable(vmi: Json) -> list[Json]:
    """Return an instance's conditions with LiveMigratable and StorageLiveMigratable: nothing moves from this node."""
    interfaces = dig(vmi, "spec", "domain", "devices", "interfaces") or []
    if any("masquerade" in interface for interface in interfaces):
        live, storage = {"reason": DISKS, "message": f"cannot migrate VMI: {NOT_SHARED}"}, {}
    else:
        live = {"reason": INTERFACE, "message": BOUND_TO_NODE}
        storage = {"reason": NEITHER, "message": f"{INTERFACE}: {BOUND_TO_NODE}"}
    conditions = dig(vmi, "status", "conditions") or []
    for kind, says in (("LiveMigratable", live), ("StorageLiveMigratable", storage)):
        conditions = with_condition(
            conditions, {"type": kind, "status": "False" if says else "True", **says, **UNTIMED}
        )
    return conditions


Find = Callable[[str], Json | None]
USER_DATA_KEYS = ("userdata", "userData")
NETWORK_DATA_KEYS = ("networkdata", "networkData")


class Unbootable(Exception):
    """An instance's volumes cannot be used as they are (yet); the message says which and why."""


def volumes_problem(vmi: Json, claim: Find, data_volume: Find) -> SyncError | bool:
    """Tell whether an instance's claims are ready: an error when one is missing, False while one is being filled."""
    namespace = vmi["metadata"]["namespace"]
    for name in claim_names(vmi["spec"]):
        volume_claim = claim(name)
        if volume_claim is None:
            return SyncError(PVC_NOT_FOUND, f"PVC {namespace}/{name} does not exist, waiting for it to appear")
        filler = data_volume(data_volume_of(volume_claim) or name)
        if filler is not None and phase(filler) not in USABLE_PHASES:
            return False
    return True


def waits_for_consumer(vmi: Json, data_volume: Find) -> bool:
    """Tell whether a claim of an instance waits for a pod that uses it, before it is bound or filled."""
    return any(phase(data_volume(name)) in CONSUMER_PHASES for name in claim_names(vmi["spec"]))


def root_volume(vmi: Json) -> Json:
    """Return the volume that an instance boots from: the one with a claim.

    Raises:
        Unbootable: there is none, or more than one claim (a machine has a single disk).
    """
    claims = [v for v in vmi["spec"].get("volumes") or [] if claim_name(v)]
    if not claims:
        raise Unbootable("no volume is a DataVolume or a claim: there is nothing to boot from")
    if len(claims) > 1:
        names = ", ".join(v["name"] for v in claims)
        raise Unbootable(f"machines have one disk here, and these volumes ask for one each: {names}")
    return dict(claims[0])


def disk_file(volume: Json, claim: Find, persistent_volume: Find, disks: Path) -> Path:
    """Return the file behind a volume.

    Raises:
        Unbootable: its claim has no bound volume, or the file is not there.
    """
    name = claim_name(volume) or ""
    bound = dig(claim(name), "spec", "volumeName")
    if not bound:
        raise Unbootable(f"claim {name} is not bound")
    spec = dig(persistent_volume(bound), "spec") or {}
    path = dig(spec, "local", "path") or dig(spec, "hostPath", "path") or str(disks / f"{bound}.raw")
    file = Path(str(path))
    if not file.is_file():
        raise Unbootable(f"disk {file} of claim {name} does not exist")
    return file


def cloud_init_documents(vmi: Json, secret: Find) -> tuple[str, str]:
    """Return an instance's user data and network data, from its volume or from the secrets that it names.

    Raises:
        Unbootable: a secret, or the key in it, does not exist.
    """
    for volume in vmi["spec"].get("volumes") or []:
        source = volume.get("cloudInitNoCloud") or volume.get("cloudInitConfigDrive")
        if source is not None:
            user_data = _document(source, "userData", "secretRef", USER_DATA_KEYS, secret)
            network_data = _document(source, "networkData", "networkDataSecretRef", NETWORK_DATA_KEYS, secret)
            return user_data, network_data or _beside(source, secret)
    return "", ""


def _document(source: Json, inline: str, reference: str, keys: tuple[str, ...], secret: Find) -> str:
    if source.get(inline):
        return str(source[inline])
    if source.get(f"{inline}Base64"):
        return base64.b64decode(str(source[f"{inline}Base64"])).decode()
    name = dig(source, reference, "name")
    if not name:
        return ""
    data = _secret_data(str(name), secret)
    if (document := _first(data, keys)) is None:
        raise Unbootable(f"secret {name} has none of the keys {', '.join(keys)}")
    return document


def _beside(source: Json, secret: Find) -> str:
    """Return network data that lies in the user data's secret."""
    name = dig(source, "secretRef", "name")
    return (_first(_secret_data(str(name), secret), NETWORK_DATA_KEYS) or "") if name else ""


def _first(data: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((base64.b64decode(data[key]).decode() for key in keys if key in data), None)


def _secret_data(name: str, secret: Find) -> Mapping[str, str]:
    obj = secret(name)
    if obj is None:
        raise Unbootable(f"secret {name} does not exist")
    data: Mapping[str, str] = obj.get("data") or {}
    return data
