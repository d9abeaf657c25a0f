"""A machine's port through the Kubernetes API: KubeVirt's portforward subresource, a WebSocket of raw bytes."""

from __future__ import annotations

import urllib3
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
    connection = cluster.connection
    where = f"GET {cluster.server}{path}"
    try:
        connected = connection.dial(seconds)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise _unreachable(where, error) from error
    tunnel = websocket.WebSocket(skip_utf8_validation=True)
    tunnel.settimeout(seconds)
    headers = [f"{name}: {value}" for name, value in connection.headers()]
    try:
        tunnel.connect(  # type: ignore[no-untyped-call]
            f"ws{cluster.server.removeprefix('http')}{path}",
            header=headers,
            subprotocols=[SUBPROTOCOL],
            suppress_origin=True,
            redirect_limit=0,  # nobody else is told the login
            socket=connected,
        )
    except websocket.WebSocketBadStatusException as refused:
        connection.heed(refused.status_code)
        answer = Answer(int(refused.status_code or 0), decode(refused.resp_body or b""), ())
        raise plain_failure(answer, f"GET {path}") from refused
    except (websocket.WebSocketException, OSError) as error:
        raise _unreachable(where, error) from error
    tunnel.settimeout(STUCK_SECONDS)
    return tunnel


def _unreachable(where: str, error: Exception) -> Unreachable:
    return Unreachable(f"{where}: {error}", hint="`vmatrix doctor` checks the cluster")
