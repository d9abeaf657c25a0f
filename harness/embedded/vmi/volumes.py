"""What an instance boots from: its root disk's file and its cloud-init documents."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.embedded.objects import dig, phase
from harness.embedded.vm.volumes import claim_name, data_volume_of
from harness.embedded.vmi.phases import SyncError
from harness.kube.client import Json

Find = Callable[[str], Json | None]
FOR_A_CONSUMER = frozenset({"WaitForFirstConsumer", "PendingPopulation"})
PVC_NOT_FOUND = "FailedPvcNotFound"
USER_DATA_KEYS = ("userdata", "userData")
NETWORK_DATA_KEYS = ("networkdata", "networkData")


class Unbootable(Exception):
    """An instance's volumes cannot be used as they are (yet); the message says which and why."""


@dataclass(frozen=True)
class Seed:
    """Cloud-init's documents."""

    user_data: str
    network_data: str


def volumes_problem(vmi: Json, claim: Find, data_volume: Find) -> SyncError | bool:
    """Tell whether an instance's claims are ready: an error when one is missing, False while one is being filled."""
    namespace = vmi["metadata"]["namespace"]
    for volume in vmi["spec"].get("volumes") or []:
        name = claim_name(volume)
        if name is None:
            continue
        found = claim(name)
        if found is None:
            message = f"PVC {namespace}/{name} does not exist, waiting for it to appear"
            return SyncError(PVC_NOT_FOUND, message, event="Normal")
        filler = data_volume(data_volume_of(found) or name)
        if filler is not None and phase(filler) not in {"Succeeded", *FOR_A_CONSUMER}:
            return False
    return True


def waits_for_consumer(vmi: Json, data_volume: Find) -> bool:
    """Tell whether a claim of an instance waits for a pod that uses it, before it is bound or filled."""
    named = [name for volume in vmi["spec"].get("volumes") or [] if (name := claim_name(volume))]
    return any(phase(data_volume(name)) in FOR_A_CONSUMER for name in named)


def root_volume(vmi: Json) -> Json:
    """Return the volume that an instance boots from: the disk with the lowest boot order, else the first claim's.

    Raises:
        Unbootable: there is none, or more than one claim (a machine has a single disk).
    """
    disks = {d["name"]: d for d in dig(vmi, "spec", "domain", "devices", "disks") or []}
    claims = [v for v in vmi["spec"].get("volumes") or [] if claim_name(v)]
    if not claims:
        raise Unbootable("no volume is a DataVolume or a claim: there is nothing to boot from")
    if len(claims) > 1:
        names = ", ".join(v["name"] for v in claims)
        raise Unbootable(f"machines have one disk here, and these volumes ask for one each: {names}")
    order = {name: position for position, name in enumerate(disks)}
    claims.sort(
        key=lambda v: (disks.get(v["name"], {}).get("bootOrder", len(order) + 1), order.get(v["name"], len(order)))
    )
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


def seed(vmi: Json, secret: Find) -> Seed:
    """Return an instance's cloud-init documents, from its volume or from the secrets that it names.

    Raises:
        Unbootable: a secret, or the key in it, does not exist.
    """
    for volume in vmi["spec"].get("volumes") or []:
        source = volume.get("cloudInitNoCloud") or volume.get("cloudInitConfigDrive")
        if source is not None:
            return Seed(
                _document(source, "userData", "secretRef", USER_DATA_KEYS, secret),
                _document(source, "networkData", "networkDataSecretRef", NETWORK_DATA_KEYS, secret)
                or _beside(source, secret),
            )
    return Seed("", "")


def _document(source: Json, inline: str, reference: str, keys: tuple[str, ...], secret: Find) -> str:
    if source.get(inline):
        return str(source[inline])
    if source.get(f"{inline}Base64"):
        return base64.b64decode(str(source[f"{inline}Base64"])).decode()
    name = dig(source, reference, "name")
    if not name:
        return ""
    found = _secret_data(str(name), secret)
    for key in keys:
        if key in found:
            return base64.b64decode(found[key]).decode()
    raise Unbootable(f"secret {name} has none of the keys {', '.join(keys)}")


def _beside(source: Json, secret: Find) -> str:
    """Return network data that lies in the user data's secret."""
    name = dig(source, "secretRef", "name")
    data = _secret_data(str(name), secret) if name else {}
    return next((base64.b64decode(data[key]).decode() for key in NETWORK_DATA_KEYS if key in data), "")


def _secret_data(name: str, secret: Find) -> Mapping[str, str]:
    found = secret(name)
    if found is None:
        raise Unbootable(f"secret {name} does not exist")
    data: Mapping[str, str] = found.get("data") or {}
    return data
