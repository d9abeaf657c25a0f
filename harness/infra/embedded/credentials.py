"""Kubeconfigs of the embedded control plane, by client certificate."""

from __future__ import annotations

import base64
from pathlib import Path

from harness.infra.host import pki
from harness.infra.host.kubeconfigs import ensure_kubeconfig


def ensure(path: Path, *, server: str, folder: Path, stem: str, cluster: str) -> None:
    """Write a kubeconfig for the client certificate `stem` of the folder, unless it is there."""
    client, authority = pki.issued(folder, stem), pki.issued(folder, pki.CA).certificate
    keys = {"client-certificate-data": _encoded(client.certificate), "client-key-data": _encoded(client.key)}
    about = {"server": server, "certificate-authority-data": _encoded(authority)}
    ensure_kubeconfig(path, cluster=(cluster, about), user=(f"{stem}@{cluster}", keys))


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
