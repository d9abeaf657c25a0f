"""What an instance boots from: its root disk's file and its cloud-init documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.embedded.vm.printable import PVC_NOT_FOUND
from harness.embedded.vm.volumes import FOR_A_CONSUMER, USABLE, claim_name, claim_names, data_volume_of
from harness.embedded.vmi.conditions import SyncError
from harness.kube.client import Json
from harness.kube.objects import dig, phase

Find = Callable[[str], Json | None]


class Unbootable(Exception):
    """An instance's volumes cannot be used as they are (yet); the message says which and why."""


def volumes_problem(vmi: Json, claim: Find, data_volume: Find) -> SyncError | bool:
    """Tell whether an instance's claims are ready: an error when one is missing, False while one is being filled."""
    namespace = vmi["metadata"]["namespace"]
    for name in claim_names(vmi["spec"]):
        found = claim(name)
        if found is None:
            return SyncError(PVC_NOT_FOUND, f"PVC {namespace}/{name} does not exist, waiting for it to appear")
        filler = data_volume(data_volume_of(found) or name)
        if filler is not None and phase(filler) not in USABLE:
            return False
    return True


def waits_for_consumer(vmi: Json, data_volume: Find) -> bool:
    """Tell whether a claim of an instance waits for a pod that uses it, before it is bound or filled."""
    return any(phase(data_volume(name)) in FOR_A_CONSUMER for name in claim_names(vmi["spec"]))


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
