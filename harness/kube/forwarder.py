"""Machines' ports for programs that only know addresses: an HTTP proxy on the loopback that leads through the API.

It answers CONNECT (RFC 9110, 9.3.6), which a kubeconfig's `proxy-url` asks for. So servers keep their names and
addresses, TLS is end to end, and only machines that it knows can be reached.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.errors import BadInput, VmatrixError
from harness.kube.bridge import Cut, bridge
from harness.kube.client import Cluster
from harness.kube.tunnels import Tunnels, refused_inside

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
