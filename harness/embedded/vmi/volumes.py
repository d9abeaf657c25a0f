"""Volumes of an instance: whether its claims are ready, its root disk's file and its cloud-init documents."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.embedded.vm.instance import CONSUMER_PHASES, USABLE_PHASES, claim_name, claim_names, data_volume_of
from harness.embedded.vm.status import PVC_NOT_FOUND
from harness.embedded.vmi.status import SyncError
from harness.kube.client import Json
from harness.kube.objects import dig, phase

Find = Callable[[str], Json | None]
USER_DATA_KEYS = ("userdata", "userData")
NETWORK_DATA_KEYS = ("networkdata", "networkData")


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
    found = _secret_data(str(name), secret)
    if (document := _first(found, keys)) is None:
        raise Unbootable(f"secret {name} has none of the keys {', '.join(keys)}")
    return document


def _beside(source: Json, secret: Find) -> str:
    """Return network data that lies in the user data's secret."""
    name = dig(source, "secretRef", "name")
    return (_first(_secret_data(str(name), secret), NETWORK_DATA_KEYS) or "") if name else ""


def _first(data: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((base64.b64decode(data[key]).decode() for key in keys if key in data), None)


def _secret_data(name: str, secret: Find) -> Mapping[str, str]:
    found = secret(name)
    if found is None:
        raise Unbootable(f"secret {name} does not exist")
    data: Mapping[str, str] = found.get("data") or {}
    return data
