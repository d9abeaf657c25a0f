"""HTTP import: stream a body into a file, verify its checksum, report progress, stop at any moment.

Failures are worded as CDI's importer words them (v1.66.0, cmd/cdi-importer, pkg/importer/http-datasource.go,
file.go, checksum.go), and Go's library those of networks.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO

CONNECT_SECONDS = 15.0  # policy: a server that accepts no connection by then is down; CDI retries
STALL_SECONDS = 600.0  # CDI's importer gives up on a body that brings nothing for ten minutes
UNCONNECTED = "Unable to connect to http data source"
UNPROCESSED = "Unable to process data"
UNTRANSFERRED = f"{UNPROCESSED}: Unable to transfer source data to scratch space"
UNCONVERTED = f"{UNPROCESSED}: Unable to convert source data to target format"
UNTRUSTED = frozenset({18, 19, 20, 21})  # OpenSSL's X509_V_ERR_* of a chain that ends at nobody's who is trusted
CHUNK = 1024 * 1024
MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class TransferFailed(Exception):
    """A transfer ended without a disk; the message is the pod's termination message. A retry may succeed."""


class ChecksumMismatch(TransferFailed):
    """The body is not what was asked for; no retry can help."""


class ScratchRequired(Exception):
    """An importer without scratch space has seen that it can import: it ends, and is made anew with a scratch claim."""


class Cancelled(Exception):
    """Somebody stopped the transfer."""


class Cancel:
    """A switch that stops a transfer, also while it waits for the network."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def set(self) -> None:
        """Stop the transfer."""
        self._set.set()
        with self._lock:
            if self._socket is not None:
                _shut(self._socket)

    def check(self) -> None:
        """Raise Cancelled when somebody stopped the transfer."""
        if self._set.is_set():
            raise Cancelled

    def watch(self, connection: socket.socket | None) -> None:
        """Have a socket shut down when the transfer is stopped; None ends that."""
        with self._lock:
            self._socket = connection
            if connection is not None and self._set.is_set():
                _shut(connection)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # it was closed by the other side
        connection.shutdown(socket.SHUT_RDWR)


def why(error: Exception) -> str:
    """Return what went wrong on the network."""
    if isinstance(error, TimeoutError):
        return f"no data within {STALL_SECONDS:.0f} s or no connection within {CONNECT_SECONDS:.0f} s (i/o timeout)"
    if isinstance(error, ssl.SSLCertVerificationError):
        unknown = error.verify_code in UNTRUSTED
        reason = "certificate signed by unknown authority" if unknown else error.verify_message
        return f"tls: failed to verify certificate: x509: {reason}"
    if isinstance(error, socket.gaierror):
        return "dial tcp: lookup: no such host"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


@dataclass(frozen=True)
class Request:
    """What to fetch.

    Attributes: checksum ("algorithm:hex", empty for none), ca (certificates to trust, PEM; empty for the system's).
    """

    url: str
    checksum: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ca: str = ""


def basic_auth(user: str, password: str) -> Mapping[str, str]:
    """Return the header of HTTP basic authentication."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def fetch(request: Request, sink: IO[bytes], cancel: Cancel, on_progress: Callable[[float], None]) -> None:
    """Stream a body into a file.

    Args:
        on_progress: told the share done (0 to 1) after every chunk, when the server says how long the body is.

    Raises:
        ChecksumMismatch: the body is another.  TransferFailed: anything else went wrong.  Cancelled: stopped.
    """
    with _answer(request, cancel) as answer:
        try:
            _copy(answer, sink, request.checksum, cancel, on_progress)
        except (OSError, http.client.HTTPException) as error:
            cancel.check()
            raise TransferFailed(f"{UNTRANSFERRED}: failed to pull image: {why(error)}") from error


def look(request: Request, cancel: Cancel) -> None:
    """See whether a URL has a body.

    Raises:
        TransferFailed: the server cannot be reached, or has none.  Cancelled: stopped.
    """
    with _answer(request, cancel):
        pass


@contextmanager
def _answer(request: Request, cancel: Cancel) -> Iterator[http.client.HTTPResponse]:
    """Open a URL, redirected as often as it takes, and yield the answer that has the body."""
    url = request.url
    for _ in range(MAX_REDIRECTS):
        connection, answer = _connected(url, request, cancel)
        try:
            if answer.status in REDIRECTS:
                url = urllib.parse.urljoin(url, answer.getheader("Location") or "")
                continue
            if answer.status != 200:
                status = f"{answer.status}. Status: {answer.status} {answer.reason}"
                raise TransferFailed(f"{UNCONNECTED}: expected status code 200, got {status}")
            yield answer
            return
        finally:
            cancel.watch(None)
            connection.close()
    raise TransferFailed(f'{UNCONNECTED}: Get "{request.url}": stopped after {MAX_REDIRECTS} redirects')


def _connected(
    url: str, request: Request, cancel: Cancel
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    try:
        return _open(url, request, cancel)
    except (OSError, http.client.HTTPException, ValueError) as error:
        cancel.check()
        parts = urllib.parse.urlsplit(url)
        refused = isinstance(error, OSError) and not isinstance(error, ssl.SSLError | socket.gaierror | TimeoutError)
        where = f"dial tcp {parts.hostname}:{parts.port or parts.scheme}: connect: " if refused else ""
        raise TransferFailed(f'{UNCONNECTED}: HTTP request errored: Get "{url}": {where}{why(error)}') from error


def _open(url: str, request: Request, cancel: Cancel) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(
            host, parts.port, timeout=CONNECT_SECONDS, context=ssl.create_default_context(cadata=request.ca or None)
        )
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=CONNECT_SECONDS)
    )
    cancel.check()
    try:
        connection.connect()
        connection.sock.settimeout(STALL_SECONDS)
        cancel.watch(connection.sock)
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        connection.request("GET", path, headers={"Accept-Encoding": "identity", **request.headers})
        return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise


def _copy(
    answer: http.client.HTTPResponse,
    sink: IO[bytes],
    checksum: str,
    cancel: Cancel,
    on_progress: Callable[[float], None],
) -> None:
    algorithm, _, expected = checksum.partition(":")
    digest = hashlib.new(algorithm.lower(), usedforsecurity=False) if checksum else None
    total = int(answer.getheader("Content-Length") or 0)
    done = 0
    while block := answer.read1(CHUNK):
        cancel.check()
        _write(sink, block)
        if digest is not None:
            digest.update(block)
        done += len(block)
        if total:
            on_progress(done / total)
    cancel.check()
    if done < total:
        raise TransferFailed(f"{UNTRANSFERRED}: failed to pull image: unexpected EOF")
    if digest is not None and digest.hexdigest() != expected.lower():
        name = algorithm.lower()
        sums = f"expected {name}:{expected.lower()}, calculated {name}:{digest.hexdigest()}"
        raise ChecksumMismatch(f"{UNTRANSFERRED}: checksum validation failed: checksum mismatch: {sums}")


def _write(sink: IO[bytes], block: bytes) -> None:
    try:
        sink.write(block)
    except OSError as error:
        text = f"write /scratch/tmpimage: {(error.strerror or str(error)).lower()}"
        raise TransferFailed(f"{UNTRANSFERRED}: unable to write to file: {text}") from error
