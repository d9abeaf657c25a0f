"""Kubeconfig files: self-contained, so that a person can copy one to another machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.files import write_atomically


def ensure_kubeconfig(
    path: Path, *, cluster: tuple[str, Mapping[str, Any]], user: tuple[str, Mapping[str, Any]]
) -> None:
    """Write a kubeconfig of one cluster and one user (names and contents), unless the file has that very text."""
    context = {"cluster": cluster[0], "user": user[0]}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster[0], "cluster": dict(cluster[1])}],
        "users": [{"name": user[0], "user": dict(user[1])}],
        "contexts": [{"name": cluster[0], "context": context}],
        "current-context": cluster[0],
    }
    text = yaml.safe_dump(config, sort_keys=False)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text, mode=0o600)
