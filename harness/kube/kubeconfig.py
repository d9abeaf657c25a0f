"""A kubeconfig becomes a client that has read every certificate and key, so that no file of them has to be kept.

The Kubernetes client writes what a kubeconfig embeds into temporary files and needs them for each new connection; those
of a process that is killed stay, private keys among them. Here they lie in memory, and only while they are read. A
token that is a file (https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken) is read again
every minute: a pod's is replaced under a running cell, and the Kubernetes client would read it once.
"""

from __future__ import annotations

import base64
import math
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.conversation import TimedAnswer
from harness.errors import VmatrixError
from harness.kube import exec_plugin
from harness.kube.chosen import PROXIES, Chosen, choose, unusable
from harness.kube.failures import Json
from harness.kube.given_login import refuse_token, refuse_unreadable
from harness.reading import read_text
from harness.urls import wrong_url

TOKEN_SECONDS = 60.0  # a kubelet replaces a token at 80 % of its life, minutes before it ends
CONNECTIONS = 32  # that are kept open for one API
FILES = ("ca_certs", "ca_cert_data", "cert_file", "key_file")  # what urllib3 would read again for each connection
EMBEDDED = ("certificate-authority", "client-certificate", "client-key")


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
        BadInput: the file is missing, malformed, or has no such context; its credential program gives nothing.
    """
    import kubernetes  # takes half a second, which commands without a cluster are spared
    from kubernetes.config.kube_config import KubeConfigLoader

    chosen = choose(path, context)
    refuse_unreadable(chosen)
    settings: Any = kubernetes.client.Configuration()
    settings.connection_pool_maxsize = CONNECTIONS
    settings.retries = False
    of_environment = settings.proxy
    status = exec_plugin.status_of(chosen) if "exec" in chosen.user else {}
    login = _logging_in(chosen.user, status)
    refuse_token(chosen, login)
    with ExitStack() as stack:
        try:
            cluster, user = _in_memory(chosen.cluster, stack), _in_memory(login, stack)
            folder = str(chosen.folder)
            KubeConfigLoader(_of_one_context(cluster, user), config_base_path=folder).load_and_set(settings)  # type: ignore[no-untyped-call]
            tls = tls_of(settings, _whose(chosen, status))
        except VmatrixError:
            raise
        except Exception as error:
            raise unusable(path, str(error)) from error
    _refuse_proxy(path, settings.proxy)
    if settings.proxy != of_environment:
        settings.no_proxy = None  # a kubeconfig's `proxy-url` counts whatever NO_PROXY says, as in client-go
    settings.refresh_api_key_hook = _renewal(chosen, status) or settings.refresh_api_key_hook
    api = kubernetes.client.ApiClient(settings)
    _set_up(api.rest_client.pool_manager, tls)
    return Opened(api, tls)


def _of_one_context(cluster: Json, user: Json) -> Json:
    """Return a kubeconfig, as the Kubernetes client reads it, of a cluster and a user alone."""
    context = {"cluster": "own", "user": "own"}
    return {
        "clusters": [{"name": "own", "cluster": cluster}],
        "users": [{"name": "own", "user": user}],
        "contexts": [{"name": "own", "context": context}],
        "current-context": "own",
    }


def _logging_in(user: Json, status: Json) -> Json:
    """Return a user with what its credential program gave in the place of the program."""
    given = {"token": status["token"]} if status.get("token") else {}
    for key, name in (("clientCertificateData", "client-certificate-data"), ("clientKeyData", "client-key-data")):
        if status.get(key):
            given[name] = base64.b64encode(str(status[key]).encode()).decode()
    return {**{key: value for key, value in user.items() if key != "exec"}, **given}


def _in_memory(entry: Json, stack: ExitStack) -> Json:
    """Return an entry that names a file in memory for each certificate and key that it embeds."""
    found = dict(entry)
    for name in EMBEDDED:
        data = found.pop(f"{name}-data", None)
        if data:
            found[name] = stack.enter_context(_memory(base64.b64decode(str(data), validate=True)))
    return found


@contextmanager
def _memory(content: bytes) -> Iterator[str]:
    """Give the path of a file with a content that is on no disk, and that ends with this process at the latest."""
    handle = os.memfd_create("vmatrix")
    try:
        os.write(handle, content)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _refuse_proxy(path: Path, proxy: str | None) -> None:
    """Refuse a proxy of the environment that cannot be connected to."""
    wrong = wrong_url(proxy, PROXIES) if proxy else ""
    if wrong:
        raise unusable(path, f"the proxy {proxy!r}: {wrong}", "correct HTTPS_PROXY and HTTP_PROXY, or unset them")


def _set_up(pools: Any, tls: ssl.SSLContext) -> None:
    """Let a pool of connections speak TLS from memory, and keep to the time of a conversation."""
    for name in FILES:
        pools.connection_pool_kw.pop(name, None)
    pools.connection_pool_kw["ssl_context"] = tls
    pools.pool_classes_by_scheme = {scheme: _timed(kind) for scheme, kind in pools.pool_classes_by_scheme.items()}


def _timed(pool: Any) -> Any:
    """Return a kind of pool whose connections read answers in time, under the names that messages have."""
    plain = pool.ConnectionCls
    connection = type(plain.__name__, (plain,), {"response_class": TimedAnswer})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


def _whose(chosen: Chosen, status: Json) -> str:
    """Return whose certificate and key a user's are."""
    if not status.get("clientCertificateData"):
        return "the user's"
    return f"the credential program {exec_plugin.name_of(chosen)}'s"


def tls_of(settings: Any, whose: str) -> ssl.SSLContext:
    """Return how to speak TLS with an API server, from the Kubernetes client's configuration.

    Args:
        whose: the certificate and key of the client are, in words.

    Raises:
        ValueError: what the configuration names cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
    except ssl.SSLError as error:
        raise ValueError("the cluster's certificate-authority is no certificate in PEM") from error
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.assert_hostname is False:
        context.check_hostname = False
    if settings.cert_file:
        try:
            context.load_cert_chain(settings.cert_file, settings.key_file)
        except ssl.SSLError as error:
            raise ValueError(f"{whose} certificate and key are not PEM, or do not belong together") from error
    return context


def _renewal(chosen: Chosen, status: Json) -> Callable[[Any], None] | None:
    """Return a hook that puts credentials into a configuration anew once they are old; None where they stay."""
    token = chosen.user.get("tokenFile")
    if token and not chosen.user.get("token"):
        return _reading(chosen.folder / str(token))
    if status.get("token"):
        return _asking(chosen, status)
    return None


def _reading(token: Path) -> Callable[[Any], None]:
    """Return a hook that puts the file's content into a configuration, at most once a minute."""
    read_at = -math.inf

    def read(configuration: Any) -> None:
        nonlocal read_at
        if time.monotonic() - read_at >= TOKEN_SECONDS:
            configuration.api_key["BearerToken"] = f"Bearer {read_text(token).strip()}"
            read_at = time.monotonic()

    return read


def _asking(chosen: Chosen, status: Json) -> Callable[[Any], None]:
    """Return a hook that runs the credential program again once its token is about to end."""
    ends, one = exec_plugin.ends_at(status), threading.Lock()

    def ask(configuration: Any) -> None:
        nonlocal ends
        with one:
            if ends is not None and datetime.now(UTC) >= ends:
                given = exec_plugin.status_of(chosen)
                configuration.api_key["BearerToken"] = f"Bearer {given.get('token', '')}"
                ends = exec_plugin.ends_at(given)

    return ask
