"""HTTPS servers that an API server calls: their certificates, which are renewed while they serve, and health.

An authority that gets old gets a successor, which is believed before anything is signed by it: `bundle` has both until
the old one has expired.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509

from harness.errors import BadInput, InfraError
from harness.kube import certificates
from harness.kube.certificates import pem_of

AUTHORITY_LIFETIME, LIFETIME = timedelta(days=1825), timedelta(days=90)
RENEWED = 0.6  # of its lifetime, at which a certificate is replaced: before two thirds, so that one missed look is none


@dataclass(frozen=True)
class ServingPair:
    """Of PEM: the authorities that are believed, the one that signs first; its key; the certificate and its key."""

    bundle: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


def begun(common_name: str, names: Iterable[str], now: datetime) -> ServingPair:
    """Return a new authority, and a certificate of it for names and addresses."""
    bundle, key = _authority(common_name, now)
    return _signed(ServingPair(bundle, key, b"", b""), names, now)


def renewed(pair: ServingPair, names: Iterable[str], now: datetime, *, believed: bool) -> ServingPair:
    """Return what is to be used from now on; the same while nothing is due, or it cannot be read any more.

    Args:
        believed: whether everybody believes all of the bundle; a new authority signs only then.

    Raises:
        ValueError: it is not such a thing.
    """
    authorities = x509.load_pem_x509_certificates(pair.bundle)
    if _due(authorities[0], now):
        bundle, key = _authority(str(authorities[0].subject.rfc4514_string()).removeprefix("CN="), now)
        old = b"".join(pem_of(authority) for authority in authorities if authority.not_valid_after_utc > now)
        return replace(pair, bundle=bundle + old, authority_key=key)
    lasting = b"".join(pem_of(authority) for authority in authorities if authority.not_valid_after_utc > now)
    if lasting != pair.bundle:
        return replace(pair, bundle=lasting)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    fits = certificates.covered(certificate) >= set(names) and certificates.signed_by(certificate, authorities[0])
    return pair if not believed or (fits and not _due(certificate, now)) else _signed(pair, names, now)


def expires(pair: ServingPair) -> datetime:
    """Return until when its certificate is valid."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc


def _due(certificate: x509.Certificate, now: datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begin + RENEWED * (end - begin)


def _authority(common_name: str, now: datetime) -> tuple[bytes, bytes]:
    certificate, key = certificates.authority(common_name, now, AUTHORITY_LIFETIME)
    return pem_of(certificate), pem_of(key)


def _signed(serving: ServingPair, names: Iterable[str], now: datetime) -> ServingPair:
    signer = (x509.load_pem_x509_certificates(serving.bundle)[0], certificates.key_of(serving.authority_key))
    certificate, key = certificates.leaf(signer, "webhooks", now=now, lifetime=LIFETIME, names=names)
    return replace(serving, certificate=pem_of(certificate), key=pem_of(key))


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


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Health:
    """What is asked: what ails the process and what it still waits for ("": nothing), and its metrics."""

    ails: Callable[[], str]
    waits: Callable[[], str]
    metrics: Callable[[], str]


@contextmanager
def health_served(health: Health, port: int, host: str = "", *, hint: str) -> Iterator[int]:
    """Answer on a port (0: any free one) meanwhile, from a thread of its own; yield the port.

    Args:
        hint: how another port is chosen.

    Raises:
        BadInput: the port cannot be had.
    """

    class Handler(AnsweringHandler):
        """Answers one request of a connection."""

        protocol_version = "HTTP/1.0"  # nobody keeps a connection to what ends

        def do_GET(self) -> None:
            """Answer."""
            if self.path == "/metrics":
                self._say(HTTPStatus.OK, health.metrics(), METRICS_TYPE)
            elif self.path in ("/healthz", "/readyz"):
                trouble = health.ails() or (health.waits() if self.path == "/readyz" else "")
                self._say(HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK, (trouble or "ok") + "\n")
            else:
                self._say(HTTPStatus.NOT_FOUND, "there are /healthz, /readyz and /metrics\n")

        def _say(self, status: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            self.answer(status, text.encode(), kind)

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise BadInput(f"cannot listen on port {port}: {error.strerror}", hint=hint) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
