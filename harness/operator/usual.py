"""What kubectl would use: its kubeconfig, and the namespace of that file's context."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import BadInput
from harness.kube.chosen import NAMESPACE, namespace_of
from harness.kube.client import Cluster


def usual_kubeconfig() -> Path:
    """Return the kubeconfig that kubectl would use. Raises BadInput if there is none."""
    path = _usual()
    if not path.is_file():
        raise BadInput(f"there is no kubeconfig {path}", hint="pass --kubeconfig PATH")
    return path


def usual_namespace(kubeconfig: Path | None = None) -> str:
    """Return the namespace of a kubeconfig's current context, as `kubectl config set-context` leaves it there.

    Args:
        kubeconfig: None for the one that kubectl would use, which need not exist.
    """
    try:
        return namespace_of(kubeconfig or _usual())
    except BadInput:  # whoever opens the file says what is wrong with it
        return NAMESPACE


def open_usual(kubeconfig: Path | None) -> Cluster:
    """Open the cluster of a kubeconfig; None: of the one that kubectl would use. Raises BadInput if there is none."""
    return Cluster.from_kubeconfig(kubeconfig or usual_kubeconfig())


def _usual() -> Path:
    return Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
