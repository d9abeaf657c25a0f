"""Port forwarding through the infra cluster's API: one connection, a forwarder of a port, and tunnels as a process.

A lost connection is told from one that has ended: the bytes on their way are gone, and whoever waited for them must be
told whose fault that is. Nothing is resumed; a new connection is a new tunnel.

`python -m harness.machines.reach.portforward FILE ADDRESS PORT` is an SSH ProxyCommand: it carries its input to that
machine's port and what comes from there to its output, and ends with whoever started it.

The forwarder answers CONNECT (RFC 9110, 9.3.6), which a kubeconfig's `proxy-url` asks for. So servers keep their names
and addresses, TLS is end to end, and only machines that it knows can be reached.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import websocket

from harness.errors import BadInput, InfraRetriable, VmatrixError
from harness.files import write_atomically
from harness.http_client import reason
from harness.kube.client import ApiFailure, Cluster
from harness.kube.failures import Answer, Unreachable, decode, plain_failure, told
from harness.kube.kubeconfig import Files, files_in
from harness.kube.resources import PORT_FORWARD

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


def open_stream(
    cluster: Cluster, path: str, seconds: float = OPEN_SECONDS, *, subprotocol: str = SUBPROTOCOL
) -> websocket.WebSocket:
    """Open a stream of bytes that KubeVirt, or a kubelet, serves at a path of the API.

    Raises:
        ApiFailure: the API, or KubeVirt, refused.  Unreachable: nobody answered.
    """
    connection = cluster.connection
    with told(f"GET {path}", cluster.server):
        connected = connection.dial(seconds)
        tunnel = websocket.WebSocket(skip_utf8_validation=True)
        tunnel.settimeout(seconds)
        headers = [f"{name}: {value}" for name, value in connection.headers()]
        try:
            tunnel.connect(  # type: ignore[no-untyped-call]
                f"ws{cluster.server.removeprefix('http')}{path}",
                header=headers,
                subprotocols=[subprotocol],
                suppress_origin=True,
                redirect_limit=0,  # nobody else is told the login
                socket=connected,
            )
        except websocket.WebSocketBadStatusException as refused:
            connection.heed(refused.status_code)
            answer = Answer(int(refused.status_code or 0), decode(refused.resp_body or b""), ())
            raise plain_failure(answer, f"GET {path}") from refused
        except websocket.WebSocketException as error:
            said = f"GET {cluster.server}{path}: {reason(error)}"
            raise Unreachable(said, hint="`vmatrix doctor` checks the cluster") from error
    tunnel.settimeout(STUCK_SECONDS)
    return tunnel


CHUNK = 64 * 1024  # bytes
MOST_UNTAKEN = 1 << 20  # bytes
PING_SECONDS = 5.0  # so that a connection that is idle is told from one that is lost
SILENT_SECONDS = 30.0  # KubeVirt pings each second, and answers pings
GRACE_MS = 500  # between the machine's end and ours, when a connection is closed by both
GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Cut(InfraRetriable):
    """A connection through the API was lost while both of its ends were still there."""


class End(Enum):
    """Who ended a connection: we, or the machine."""

    OURS = "ours"
    MACHINE = "machine"


def bridge(tunnel: websocket.WebSocket, source: int, sink: int) -> End:
    """Carry bytes both ways until one side has ended. Closes the tunnel; the caller closes the other side.

    Args:
        source, sink: file descriptors, blocking: what is read from one goes to the machine, what comes from there goes
            to the other. They may be the same, of a socket.

    Raises:
        Cut: the connection was lost.
    """
    carrying = _Bridge(tunnel, source, sink)
    try:
        end = carrying.carry()
        tunnel.send_close()
        return end
    except (websocket.WebSocketException, OSError) as error:
        with suppress(OSError):
            carrying.hand_over()
        if _ended(source, sink, GRACE_MS):
            return End.OURS
        raise Cut(f"the connection through the Kubernetes API was lost: {error or type(error).__name__}") from error
    finally:
        tunnel.shutdown()  # type: ignore[no-untyped-call]


def _ended(source: int, sink: int, milliseconds: int) -> bool:
    """Tell whether our own side has gone: nothing more to read, or nobody who reads."""
    poller = select.poll()
    poller.register(source, select.POLLIN)
    poller.register(sink, select.POLLIN if sink == source else 0)
    for descriptor, event in poller.poll(milliseconds):
        if event & GONE or (descriptor == source and not os.read(source, CHUNK)):
            return True
    return False


class _Bridge:
    """One tunnel with two descriptors: waits for whichever has something, or takes something.

    What comes from the machine waits here until it is taken, so that a reader who is slow holds up nothing but itself.
    """

    def __init__(self, tunnel: websocket.WebSocket, source: int, sink: int) -> None:
        self._tunnel, self._source, self._sink = tunnel, source, sink
        self._socket: int = tunnel.fileno()  # type: ignore[no-untyped-call]
        self._heard = self._pinged = time.monotonic()
        self._untaken = bytearray()
        self._poller = select.poll()

    def carry(self) -> End:
        """Carry until the end."""
        while True:
            room = len(self._untaken) < MOST_UNTAKEN
            waiting = room and self._decrypted()
            ready = self._wait(0 if waiting else PING_SECONDS, room=room)
            if (waiting or self._socket in ready) and not self._receive():
                self.hand_over()
                return End.MACHINE
            if ready.get(self._source, 0) & (select.POLLIN | GONE) and not self._send():
                return End.OURS
            if ready.get(self._sink, 0) & GONE and self._sink != self._source:
                return End.OURS
            if ready.get(self._sink, 0) & select.POLLOUT:
                self._write()
            self._keep_alive()

    def _wait(self, seconds: float, *, room: bool) -> dict[int, int]:
        """Return what there is to do, by descriptor; `room`: whether more may come from the machine."""
        wanted = {self._source: select.POLLIN}
        wanted[self._sink] = wanted.get(self._sink, 0) | (select.POLLOUT if self._untaken else 0)
        for descriptor, events in wanted.items():
            self._poller.register(descriptor, events)
        self._poller.register(self._socket, select.POLLIN if room else 0)
        return dict(self._poller.poll(seconds * 1000))

    def _decrypted(self) -> bool:
        """Tell whether bytes wait in TLS, where poll does not see them."""
        secured: Any = self._tunnel.sock
        inner = getattr(secured, "sslobj", None)  # of TLS by a proxy that is itself spoken to by TLS
        if inner is not None:
            return bool(inner.pending() or secured.incoming.pending)
        pending = getattr(secured, "pending", None)
        return pending is not None and pending() > 0

    def _write(self) -> None:
        taken = os.write(self._sink, self._untaken[: select.PIPE_BUF])  # so much is taken without waiting
        del self._untaken[:taken]

    def hand_over(self) -> None:
        """Write what is left at the end."""
        while self._untaken:
            self._write()

    def _receive(self) -> bool:
        opcode, content = self._tunnel.recv_data(control_frame=True)
        self._heard = time.monotonic()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return False
        if opcode in {websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT}:
            self._untaken += content
        return True

    def _send(self) -> bool:
        content = os.read(self._source, CHUNK)
        if content:
            self._tunnel.send_binary(content)
        return bool(content)

    def _keep_alive(self) -> None:
        now = time.monotonic()
        if now - self._heard > SILENT_SECONDS:
            raise websocket.WebSocketTimeoutException(f"nothing was heard for {SILENT_SECONDS:.0f} s")
        if now - self._pinged > PING_SECONDS:
            self._pinged = now
            self._tunnel.ping()


FAILED = 1
NOBODY_LISTENS = "dialing VM"  # how KubeVirt says that the machine, and not the way to it, refused


@dataclass(frozen=True)
class Lost:
    """One connection that was lost, or could not be had because of the way: when (seconds since the epoch), to what."""

    at: float
    address: str
    port: int
    why: str


@dataclass(frozen=True)
class Tunnels:
    """How a cell's machines are reached through the API.

    kubeconfig, context: of the infra cluster.  namespace: of the machines.
    instances: the VirtualMachineInstances' names, by address.  log: gets a line for every connection that is lost.
    open_seconds: how long a connection may take to open.
    """

    kubeconfig: Files
    context: str | None
    namespace: str
    instances: Mapping[str, str]
    log: Path
    open_seconds: float = OPEN_SECONDS

    def save(self, path: Path) -> None:
        """Write the file; it holds no secret."""
        files = [str(file.absolute()) for file in files_in(self.kubeconfig)]
        content = {**vars(self), "kubeconfig": files, "instances": dict(self.instances)}
        write_atomically(path, json.dumps(content, indent=2, default=str) + "\n")

    @staticmethod
    def load(path: Path) -> Tunnels:
        """Read the file.

        Raises:
            BadInput: it is not there, or is not such a file.
        """
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            files = tuple(Path(file) for file in content["kubeconfig"])
            return Tunnels(
                files[0] if len(files) == 1 else files,
                content["context"],
                content["namespace"],
                content["instances"],
                Path(content["log"]),
                float(content.get("open_seconds", OPEN_SECONDS)),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} does not say how machines are reached: {error}") from error

    def cluster(self) -> Cluster:
        """Open the infra cluster."""
        return Cluster.from_kubeconfig(self.kubeconfig, context=self.context)

    def open(self, cluster: Cluster, address: str, port: int) -> websocket.WebSocket:
        """Open a connection to the machine at an address; what goes wrong on the way is written down.

        Raises:
            BadInput: no machine has the address.  ApiFailure, Unreachable: see open_tunnel.
        """
        instance = self.instances.get(address)
        if instance is None:
            raise BadInput(f"no machine has the address {address}", hint=f"known: {', '.join(self.instances)}")
        try:
            return open_tunnel(cluster, self.namespace, instance, port, self.open_seconds)
        except VmatrixError as error:
            if not refused_inside(error):
                note(self.log, address, port, str(error))
            raise

    def lost_since(self, moment: float) -> list[Lost]:
        """Return the connections that were lost since a moment (seconds since the epoch), oldest first."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.is_file() else []
        return [lost for lost in (Lost(**json.loads(line)) for line in lines) if lost.at >= moment]


def lost_since(tunnels: Path | None, moment: float) -> list[Lost]:
    """Return the same of a cell, given its file; none where no connection goes through the API."""
    return Tunnels.load(tunnels).lost_since(moment) if tunnels is not None else []


def note(log: Path, address: str, port: int, why: str) -> None:
    """Write down, for whoever looks for the cause of a failure, that a connection was lost or could not be had."""
    line = json.dumps({"at": time.time(), "address": address, "port": port, "why": why})
    with log.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def refused_inside(error: VmatrixError) -> bool:
    """Tell whether it was the machine that refused a connection: the way to it is fine."""
    return isinstance(error, ApiFailure) and NOBODY_LISTENS in error.message


def leave(number: int, _: object) -> None:
    """End on a signal, as ssh sends one at its own end: what was made for this process goes with it."""
    sys.exit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Be an SSH ProxyCommand; return the exit status."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    path, address, port = arguments
    try:
        tunnels = Tunnels.load(Path(path))
        tunnel = tunnels.open(tunnels.cluster(), address, int(port))
        try:
            bridge(tunnel, sys.stdin.fileno(), sys.stdout.fileno())
        except Cut as cut:
            note(tunnels.log, address, int(port), str(cut))
            raise
    except VmatrixError as error:
        sys.stderr.write(f"{address}:{port}: {error.summary}\n")
        return FAILED
    return 0


log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
NOT_A_MACHINE, NO_ANSWER, NO_WAY = 403, 502, 503


class Forwarder:
    """A proxy to the machines of one cell; every connection is a tunnel of its own."""

    def __init__(self, tunnels: Tunnels) -> None:
        self.tunnels = tunnels
        self._cluster: Cluster = tunnels.cluster()
        self._server = _Server((LOOPBACK, 0), _Handler)
        self._server.forwarder = self
        threading.Thread(target=self._server.serve_forever, name="forwarder", daemon=True).start()

    @property
    def url(self) -> str:
        """Return the proxy's URL."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def close(self) -> None:
        """Take no more connections; those that are open end with their programs."""
        self._server.shutdown()
        self._server.server_close()

    def carry(self, client: socket.socket, address: str, port: int) -> None:
        """Answer one CONNECT, and carry until one side has ended."""
        try:
            tunnel = self.tunnels.open(self._cluster, address, port)
        except VmatrixError as error:
            code = NOT_A_MACHINE if isinstance(error, BadInput) else NO_ANSWER if refused_inside(error) else NO_WAY
            client.sendall(_refusal(code, error.summary))
            return
        try:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            bridge(tunnel, client.fileno(), client.fileno())
        except Cut as cut:  # of HTTP, a server that closes cannot be told from a way that breaks; clients ask again
            log.debug("%s:%d: %s", address, port, cut)


def _refusal(code: int, why: str) -> bytes:
    line = " ".join(why.split())[:300]  # clients show the reason phrase, and nothing else
    return f"HTTP/1.1 {code} {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    forwarder: Forwarder

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a connection that broke."""
        log.debug("the connection of %s broke", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    rbufsize = 0  # what follows the request is the tunnel's

    def do_CONNECT(self) -> None:
        """Lead to a machine's port."""
        assert isinstance(self.server, _Server)  # noqa: S101 - made by Forwarder
        self.close_connection = True
        address, _, port = self.path.rpartition(":")
        if not port.isdigit():
            self.connection.sendall(_refusal(400, f"{self.path} is not HOST:PORT"))
            return
        self.server.forwarder.carry(self.connection, address.strip("[]"), int(port))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Keep the access log out of stderr."""
        log.debug(format, *args)


def forwarding(tunnels: Tunnels) -> closing[Forwarder]:
    """Run a forwarder for as long as the body of `with` runs."""
    return closing(Forwarder(tunnels))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
