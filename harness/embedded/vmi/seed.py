"""An instance's cloud-init documents."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from harness.embedded.vmi.volumes import Find, Unbootable
from harness.kube.client import Json
from harness.kube.objects import dig

USER_DATA_KEYS = ("userdata", "userData")
NETWORK_DATA_KEYS = ("networkdata", "networkData")


def seed(vmi: Json, secret: Find) -> tuple[str, str]:
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
