"""Where the guests of a cell find binaries and images: over their IP family, under their name for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.model import Mirror, ip_version
from harness.spec.networks import PODS

PREFIX = "cluster_image_prefix"


def mirror_of(mirror: Mirror, variables: Mapping[str, Any]) -> Mirror:
    """Return an infra's mirror as the guest cluster with these variables knows it."""
    found = mirror.over(ip_version(str(variables.get(PODS) or "")))
    return replace(found, prefix=str(variables.get(PREFIX) or ""))
