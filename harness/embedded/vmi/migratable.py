"""Whether an instance could be moved to another node, in the words of KubeVirt's node agent (virt-handler v1.9.0).

Nothing is ever moved here. Who reads an instance finds the conditions all the same, as on every instance that runs.
"""

from __future__ import annotations

from harness.embedded.vm.volumes import claim_name
from harness.embedded.vmi.conditions import UNTIMED
from harness.kube.client import Json
from harness.kube.objects import dig, with_condition

INTERFACE, DISKS, NEITHER = "InterfaceNotLiveMigratable", "DisksNotLiveMigratable", "NotMigratable"
BRIDGE_ALLOWED = "kubevirt.io/allow-pod-bridge-network-live-migration"
BOUND_TO_NODE = "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network"
NOT_SHARED = "live migration requires that all PVCs must be shared (using ReadWriteMany access mode)"


def with_migratable(vmi: Json) -> list[Json]:
    """Return an instance's conditions with LiveMigratable and StorageLiveMigratable."""
    network = _network_problem(vmi)
    disks = "" if network else _disk_problem(vmi)
    if network:
        live = _condition("LiveMigratable", INTERFACE, network)
        storage = _condition("StorageLiveMigratable", NEITHER, f"{INTERFACE}: {network}")
    else:
        live = _condition("LiveMigratable", DISKS if disks else "", disks)
        storage = _condition("StorageLiveMigratable", "", "")
    return with_condition(with_condition(dig(vmi, "status", "conditions") or [], live), storage)


def _condition(kind: str, reason: str, message: str) -> Json:
    says = {"reason": reason, "message": message} if reason else {}
    return {"type": kind, "status": "False" if reason else "True", **says, **UNTIMED}


def _network_problem(vmi: Json) -> str:
    """Return why an instance's network keeps it where it is, "" when it does not."""
    interfaces = dig(vmi, "spec", "domain", "devices", "interfaces") or []
    pod_network = next((n["name"] for n in dig(vmi, "spec", "networks") or [] if "pod" in n), None)
    if not interfaces or pod_network is None:
        return ""
    primary = next((i for i in interfaces if i["name"] == pod_network), None)
    if primary is None:
        return f"no primary interface found for network {pod_network}"
    allowed = "bridge" in primary and BRIDGE_ALLOWED in (vmi["metadata"].get("annotations") or {})
    return "" if allowed or "masquerade" in primary or "passtBinding" in primary else BOUND_TO_NODE


def _disk_problem(vmi: Json) -> str:
    """Return why an instance's disks keep it where it is, "" when they do not."""
    known = {v["name"]: v.get("persistentVolumeClaimInfo") for v in dig(vmi, "status", "volumeStatus") or []}
    for volume in vmi["spec"].get("volumes") or []:
        claim = claim_name(volume)
        if claim is None:
            continue
        info = known.get(volume["name"])
        if info is None:
            return f"cannot migrate VMI: Unable to determine if PVC {claim} is shared, {NOT_SHARED}"
        if "ReadWriteMany" not in (info.get("accessModes") or []):
            return f"cannot migrate VMI: PVC {claim} is not shared, {NOT_SHARED}"
    return ""
