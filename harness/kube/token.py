"""Tokens that are files: a pod's is replaced under a running cell, and the Kubernetes client reads it once.

https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

TOKEN_SECONDS = 60.0  # a kubelet replaces a token at 80 % of its life, minutes before it ends


def follow_token(configuration: Any, path: Path, context: str | None) -> None:
    """Have a client's configuration read its token again every minute, where a kubeconfig names the token's file.

    Args:
        configuration: the Kubernetes client's, already loaded from the kubeconfig at `path`.
        context: the context in the kubeconfig; None for its current one.
    """
    token = _file(path, context)
    if token is not None:
        configuration.refresh_api_key_hook = _reading(token)


def _file(path: Path, context: str | None) -> Path | None:
    """Return the file that a kubeconfig's user has its token in; None when it logs in otherwise."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    chosen = context or config.get("current-context")
    contexts = {c["name"]: c["context"] for c in config.get("contexts") or []}
    users = {u["name"]: u.get("user") or {} for u in config.get("users") or []}
    name = users.get((contexts.get(chosen) or {}).get("user"), {}).get("tokenFile")
    return path.parent / name if name else None


def _reading(token: Path) -> Callable[[Any], None]:
    """Return a hook that puts the file's content into a configuration, at most once a minute."""
    read_at = -math.inf

    def read(configuration: Any) -> None:
        nonlocal read_at
        if time.monotonic() - read_at >= TOKEN_SECONDS:
            configuration.api_key["BearerToken"] = f"Bearer {token.read_text(encoding='utf-8').strip()}"
            read_at = time.monotonic()

    return read
