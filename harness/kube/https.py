"""HTTPS servers whose handlers block: each connection on a thread of its own."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from harness.errors import InfraError

log = logging.getLogger(__name__)
IDLE_SECONDS = 120.0  # of a connection without a request, longer than the API server keeps one unused


class AnsweringHandler(BaseHTTPRequestHandler):
    """Answers requests on connections that the API server keeps."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = IDLE_SECONDS

    def answer(self, code: int, body: bytes, kind: str) -> None:
        """Send a whole answer; `kind` is its media type."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Keep the access log out of stderr."""
        log.debug(format, *args)


class HttpsServer(ThreadingHTTPServer):
    """Serves each connection on a thread of its own, the TLS handshake included."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a connection that broke (a probe of the port, an API server that was killed)."""
        log.debug("the connection of %s broke", client_address, exc_info=True)

    def use(self, certificate: Path, key: Path) -> None:
        """Show another certificate to whoever connects from now on; connections that there are stay."""
        assert isinstance(self.socket, ssl.SSLSocket)  # noqa: S101 - as `listen` made it
        self.socket.context.load_cert_chain(certificate, key)


def listen(
    address: tuple[str, int],
    handler: Callable[..., AnsweringHandler],
    *,
    certificate: Path,
    key: Path,
    clients: Path | None = None,
    what: str,
) -> HttpsServer:
    """Listen; run the result's `serve_forever` on a thread, end it with `shutdown`.

    Args:
        certificate: the server's, PEM (with its chain); key: its private key.
        clients: certificates that sign those of the clients; anybody may connect without them.
        what: what listens, for the error.

    Raises:
        InfraError: the address is taken.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    try:
        server = HttpsServer(address, handler)
    except OSError as error:
        raise InfraError(
            f"{what} cannot listen on {address[0]}:{address[1]}: {error.strerror}",
            hint=f"find the process that listens there: ss -ltnp sport = :{address[1]}",
        ) from error
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server
