"""Part of kubeadm_settings.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP
from harness.validate.facts.cluster import Json

ZERO: tuple[Any, ...] = (None, "", 0, "0", "0s", {}, [])  # what kubeadm writes for "the kubelet's default"


OF_THE_NODE = ("resolvConf", "kind", "apiVersion")  # kubeadm sets the first by what runs on each machine


def settings_in(api: Cluster, place: str, key: str) -> Json | None:
    """Return the YAML under a key of a ConfigMap (NAMESPACE/NAME), None where it has none."""
    namespace, _, name = place.partition("/")
    text = ((api.get(CONFIG_MAP, name, namespace) or {}).get("data") or {}).get(key)
    read: Any = yaml.safe_load(text) if text is not None else None
    return read if isinstance(read, dict) else None


def given(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings that are not left to the kubelet's default, each with its path of keys, joined by dots."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from given(value, f"{above}{key}.")
        elif not (value in ZERO and value is not False) and key not in OF_THE_NODE:
            yield f"{above}{key}", value
