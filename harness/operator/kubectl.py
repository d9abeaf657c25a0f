"""What kubectl would use: its kubeconfig, and the namespace of its context."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.kubeconfig import NAMESPACE, Files, files_in, files_of, namespace_of


def usual_kubeconfig() -> Files:
    """Return the kubeconfig that kubectl would use. Raises BadInput if there is none."""
    files = _usual()
    if not any(path.is_file() for path in files_in(files)):
        raise BadInput(f"there is no kubeconfig {', '.join(map(str, files_in(files)))}", hint="pass --kubeconfig PATH")
    return files


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


def _usual() -> Files:
    return files_of(os.environ, Path.home())
