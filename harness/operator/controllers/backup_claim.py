"""Whether the PersistentVolumeClaim of a snapshot can be mounted, and what to do where it cannot; pure."""

from __future__ import annotations

from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.objects import deleting, dig, phase

CONSUMER = "WaitForFirstConsumer"  # a class whose claims are bound once a pod uses them


@dataclass(frozen=True)
class ClaimTrouble:
    """Why a snapshot cannot be put anywhere, as a condition says it; the message ends with what to do."""

    reason: str
    message: str


NO_DESTINATION = ClaimTrouble(
    "NoDestination",
    "nobody says where the snapshot is put: make another EtcdBackup with spec.destination.claim, or set "
    "spec.etcd.backup.destination.claim of the ClusterDeployment",
)


def trouble_of(name: str, claim: Json | None, binding: str | None) -> ClaimTrouble | None:
    """Return why a claim cannot be mounted, None where nothing speaks against it.

    Args:
        claim: None where there is none of the name.
        binding: the binding mode of its class; None where that is not known.
    """
    if claim is None:
        remedy = "create it in this namespace"
        return ClaimTrouble("ClaimNotFound", f"there is no PersistentVolumeClaim {name}: {remedy}")
    if deleting(claim):
        return ClaimTrouble("ClaimNotBound", f"PersistentVolumeClaim {name} is being deleted: make another EtcdBackup")
    said = phase(claim) or "Pending"
    if said == "Bound" or (said == "Pending" and binding in (CONSUMER, None)):
        return None
    why = f"PersistentVolumeClaim {name} is {said}, and no pod can use it"
    return ClaimTrouble("ClaimNotBound", f"{why}: `kubectl describe pvc {name}` says what its volume lacks")


def missing(name: str, volume: str | None, claim: Json | None) -> str:
    """Return why a snapshot is not in its claim any more, "" where nothing speaks against it.

    Args:
        volume: the PersistentVolume that the snapshot was put into, None where that is not known.
        claim: the claim of the name, None where there is none.
    """
    remedy = "bind the claim to that volume again, or make another EtcdBackup"
    if claim is None:
        return f"PersistentVolumeClaim {name}, in which the snapshot lies, is gone: {remedy}"
    now = dig(claim, "spec", "volumeName")
    if volume and now != volume:
        other = f"volume {now}" if now else "no volume"
        return f"PersistentVolumeClaim {name} has {other}, and the snapshot lies in {volume}: {remedy}"
    return ""


def class_of(claim: Json | None) -> str | None:
    """Return the StorageClass that a claim still waits for a volume of; None where it waits for none."""
    return None if claim is None or phase(claim) == "Bound" else dig(claim, "spec", "storageClassName")
