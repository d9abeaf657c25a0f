"""A machine's port through the Kubernetes API: KubeVirt's portforward subresource, a WebSocket of raw bytes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import websocket

from harness.kube.client import Cluster
from harness.kube.failures import Answer, Unreachable, decode, plain_failure
from harness.kube.resources import Resource

PORT_FORWARD = Resource("subresources.kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
SUBPROTOCOL = "plain.kubevirt.io"
OPEN_SECONDS = 20.0  # for the API server, KubeVirt behind it and the machine's answer, unless tunnel_open is known
STUCK_SECONDS = 30.0  # a message that takes longer is stuck; what a tunnel carries in all has no limit


def open_tunnel(
    cluster: Cluster, namespace: str, instance: str, port: int, seconds: float = OPEN_SECONDS
) -> websocket.WebSocket:
    """Open a connection to a port of a machine.

    Raises:
        ApiFailure: the API, or KubeVirt, refused (500 `dialing VM`: nobody listens in the machine).
        Unreachable: nobody answered.
    """
    return open_stream(cluster, f"{PORT_FORWARD.path(namespace, instance, 'portforward')}/{port}/tcp", seconds)


def open_stream(cluster: Cluster, path: str, seconds: float = OPEN_SECONDS) -> websocket.WebSocket:
    """Open a stream of bytes that KubeVirt serves at a path of the API.

    Raises:
        ApiFailure: the API, or KubeVirt, refused.  Unreachable: nobody answered.
    """
    opened = cluster.opened
    settings = opened.api.configuration  # the Kubernetes library's: the only one that knows every way to log in
    server_name = {"server_hostname": settings.tls_server_name} if settings.tls_server_name else {}
    tunnel = websocket.WebSocket(sslopt={"context": opened.tls, **server_name}, skip_utf8_validation=True)
    tunnel.settimeout(seconds)
    url = f"ws{settings.host.removeprefix('http')}{path}"
    try:
        tunnel.connect(  # type: ignore[no-untyped-call]
            url, header=_headers(settings), subprotocols=[SUBPROTOCOL], suppress_origin=True, **_proxy(settings)
        )
    except websocket.WebSocketBadStatusException as refused:
        answer = Answer(int(refused.status_code or 0), decode(refused.resp_body or b""), ())
        raise plain_failure(answer, f"GET {path}") from refused
    except (websocket.WebSocketException, OSError) as error:
        raise Unreachable(f"GET {settings.host}{path}: {error}", hint="`vmatrix doctor` checks the cluster") from error
    tunnel.settimeout(STUCK_SECONDS)
    return tunnel


def _headers(settings: Any) -> list[str]:
    """Return the headers that log in; a token that is a file, or that a command gives, is had anew when it is old."""
    return [f"{auth['key']}: {auth['value']}" for auth in settings.auth_settings().values() if auth["value"]]


def _proxy(settings: Any) -> dict[str, Any]:
    """Return the options of a proxy before the API server; one of the environment counts as it does for the client."""
    if not settings.proxy:
        return {"http_no_proxy": ["*"]}
    parts = urlsplit(settings.proxy)
    found: dict[str, Any] = {
        "http_proxy_host": parts.hostname,
        "http_proxy_port": parts.port or 3128,
        "http_no_proxy": [word.strip() for word in (settings.no_proxy or "").split(",") if word.strip()],
        "proxy_type": parts.scheme if parts.scheme.startswith("socks") else "http",
    }
    if parts.username:
        found["http_proxy_auth"] = (parts.username, parts.password or "")
    return found
