"""The custom resources of KubeVirt and CDI: the real definitions, one JSON file each (see README.md)."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

KUBEVIRT_VERSION = "v1.9.0"
CDI_VERSION = "v1.66.0"

Json = dict[str, Any]


def crds() -> list[Json]:
    """Return the CustomResourceDefinitions, sorted by name; the caller may change them."""
    names = sorted(entry.name for entry in resources.files(__package__).iterdir() if entry.name.endswith(".json"))
    return [json.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8")) for name in names]


@cache
def schema(plural: str, group: str) -> Json:
    """Return the schema that objects of a kind are stored by; treat it as read-only.

    Raises:
        KeyError: there is no such definition.
    """
    for definition in crds():
        spec = definition["spec"]
        if spec["names"]["plural"] == plural and spec["group"] == group:
            stored: Json = next(v["schema"]["openAPIV3Schema"] for v in spec["versions"] if v["storage"])
            return stored
    raise KeyError(f"{plural}.{group}")
