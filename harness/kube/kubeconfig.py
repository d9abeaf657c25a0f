"""A kubeconfig becomes a client that has read every certificate and key, so that no file of them has to be kept.

The Kubernetes client writes what a kubeconfig embeds into temporary files and needs them for each new connection; those
of a process that is killed stay, private keys among them. Here they live only while they are read. A token that is a
file (https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken) is read again every minute: a
pod's is replaced under a running cell, and the Kubernetes client would read it once.
"""

from __future__ import annotations

import math
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes
import yaml

from harness.errors import BadInput

TOKEN_SECONDS = 60.0  # a kubelet replaces a token at 80 % of its life, minutes before it ends
CONNECTIONS = 32  # that are kept open for one API
FILES = ("ca_certs", "ca_cert_data", "cert_file", "key_file")  # what urllib3 would read again for each connection
_LOADING = threading.Lock()  # the client shares the files of equal content, whoever takes them away


@dataclass(frozen=True)
class Opened:
    """A client of the Kubernetes library, and how it speaks TLS."""

    api: Any
    tls: ssl.SSLContext


def open_kubeconfig(path: Path, context: str | None) -> Opened:
    """Open a kubeconfig file.

    Args:
        context: the context in it; None for its current one.

    Raises:
        BadInput: the file is missing, malformed, or has no such context.
    """
    if not path.is_file():
        raise BadInput(f"kubeconfig {path} does not exist", hint="pass --kubeconfig PATH or bring the infra up first")
    settings: Any = kubernetes.client.Configuration()
    settings.connection_pool_maxsize = CONNECTIONS
    settings.retries = False
    of_environment = settings.proxy
    with _LOADING, tempfile.TemporaryDirectory(prefix="vmatrix-") as folder:
        try:
            kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
                str(path), context=context, client_configuration=settings, temp_file_path=folder
            )
            tls = tls_of(settings)
        except Exception as error:
            raise BadInput(
                f"kubeconfig {path} cannot be used: {error}", hint="check the file and the context's name"
            ) from error
    if settings.proxy != of_environment:
        settings.no_proxy = None  # a kubeconfig's `proxy-url` counts whatever NO_PROXY says, as in client-go
    if token := _token_file(path, context):
        settings.refresh_api_key_hook = _reading(token)
    api = kubernetes.client.ApiClient(settings)
    pool = api.rest_client.pool_manager.connection_pool_kw
    for name in FILES:
        pool.pop(name, None)
    pool["ssl_context"] = tls
    return Opened(api, tls)


def tls_of(settings: Any) -> ssl.SSLContext:
    """Return how to speak TLS with an API server, from the Kubernetes client's configuration."""
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.assert_hostname is False:
        context.check_hostname = False
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def _token_file(path: Path, context: str | None) -> Path | None:
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
