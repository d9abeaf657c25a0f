"""Kubeconfig files: self-contained, so that a person can copy one to another machine."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from harness.files import write_atomically
from harness.infra.host import pki


def ensure_kubeconfig(path: Path, *, server: str, folder: Path, stem: str, cluster: str) -> None:
    """Write a kubeconfig for the client certificate `stem` of the folder, unless that very text is there already."""
    client = pki.issued(folder, stem)
    user = f"{stem}@{cluster}"
    text = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _encoded(pki.issued(folder, pki.CA).certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _encoded(client.certificate),
                        "client-key-data": _encoded(client.key),
                    },
                }
            ],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
            "current-context": cluster,
        },
        sort_keys=False,
    )
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    write_atomically(path, text, mode=0o600)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
