"""How far a machine is that is being made, at one look: what is still to come, or what is in the way and what to do.

Nobody waits here: whoever asks again sees more. How long something has been so, the objects themselves say.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from harness.errors import InfraRetriable, VmatrixError
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, parse_time
from harness.machines.kubevirt.disks import disk_trouble, failure_of, hopeless
from harness.machines.kubevirt.starting import Start, disk_failure, ended, held_up

EVENTS_SECONDS = 10.0  # pacing: most disks are whole by then, and nobody has to read all events of the namespace
PATIENT_SECONDS = 60.0  # as `unschedulable` in matrix/timeouts.yml: a used-up quota may be freed
TERMS = {
    "images": "the fields of `kubevirt.image`",
    "size": "`kubevirt.disk`",
    "source": "in `kubevirt.image`, from a pod of the infra cluster",
    "secrets": "in the namespace of the Machine",
}
SMALLER = "ask for less in `kubevirt.memory`, `kubevirt.cpus` or `kubevirt.nodeSelector`"
LOGS = "see the logs of its virt-launcher pod"


class Stage(StrEnum):
    """What a machine that is being made has come to, as the reason of a condition."""

    KEY_MISSING = "KeyMissing"
    NAME_TAKEN = "NameTaken"
    QUOTA_EXCEEDED = "QuotaExceeded"
    REFUSED = "Refused"
    IMPORTING_IMAGE = "ImportingImage"
    IMAGE_IMPORT_FAILED = "ImageImportFailed"
    MAKING_DISK = "MakingDisk"
    DISK_FAILED = "DiskFailed"
    STARTING = "Starting"
    NO_NODE_FITS = "NoNodeFits"
    NOT_STARTING = "NotStarting"


@dataclass(frozen=True)
class Halt:
    """Where a machine is at; the message ends with what to do where something is to be done."""

    reason: Stage
    message: str


def of_image(cluster: Cluster, volume: Json, moment: datetime) -> Halt | None:
    """Return how far the import of a machine's image is, None when it is there."""
    what = f"image {volume['metadata']['name']}"
    return _of_volume(cluster, what, volume, moment, (Stage.IMPORTING_IMAGE, Stage.IMAGE_IMPORT_FAILED))


def of_disk(cluster: Cluster, volume: Json, moment: datetime) -> Halt | None:
    """Return how far a machine's disk is, None when it is whole."""
    what = f"disk {volume['metadata']['name']}"
    return _of_volume(cluster, what, volume, moment, (Stage.MAKING_DISK, Stage.DISK_FAILED))


def of_start(start: Start) -> Halt:
    """Return how far a machine is that has all of its objects and does not run yet."""
    trouble: VmatrixError | None = ended(start, LOGS)
    if trouble is None and start.word == "DataVolumeError":
        trouble = disk_failure(start)
    if trouble is not None:
        return Halt(Stage.NOT_STARTING, said(trouble))
    trouble = held_up(start, smaller=SMALLER)
    if trouble is None:
        return Halt(Stage.STARTING, f"machine {start.name} starts: {start.word or start.phase or 'no status yet'}")
    unschedulable = start.word == "ErrorUnschedulable"
    return Halt(Stage.NO_NODE_FITS if unschedulable else Stage.NOT_STARTING, said(trouble))


def said(trouble: VmatrixError) -> str:
    """Return what an error says, with what to do, in one line."""
    return f"{trouble.summary}; {trouble.hint}" if trouble.hint else trouble.summary


def _of_volume(
    cluster: Cluster, what: str, volume: Json, moment: datetime, reasons: tuple[Stage, Stage]
) -> Halt | None:
    phase, (coming, failed) = str(dig(volume, "status", "phase") or ""), reasons
    if phase == "Succeeded":
        return None
    if hopeless(volume):
        return Halt(failed, said(failure_of(cluster, what, volume, terms=TERMS)))
    age = (moment - parse_time(volume["metadata"]["creationTimestamp"])).total_seconds()
    if age >= EVENTS_SECONDS:
        trouble = disk_trouble(cluster, what, volume, patient=age < PATIENT_SECONDS, terms=TERMS)
        if trouble is not None:
            return Halt(coming if isinstance(trouble, InfraRetriable) else failed, said(trouble))
    progress = str(dig(volume, "status", "progress") or "")
    return Halt(coming, f"{what}: {phase or 'new'} {progress if progress != 'N/A' else ''}".rstrip())
