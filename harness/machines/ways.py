"""A guest's kubeconfig for whoever reaches its machines through the infra cluster's API."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness.files import write_atomically


def through(kubeconfig: Path, url: str, copy: Path) -> Path:
    """Write a copy of a guest's kubeconfig whose requests go through a proxy; return its path.

    Server and certificates stay as they are: who reads it sees the same cluster.
    """
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for entry in content.get("clusters") or []:
        entry["cluster"]["proxy-url"] = url
    write_atomically(copy, yaml.safe_dump(content, sort_keys=False), mode=0o600)
    return copy
