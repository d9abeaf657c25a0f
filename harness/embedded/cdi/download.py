"""Streaming of an HTTP body into a file: checksum on the way, progress, and a way to stop it at any moment.

Failures are told as CDI's importer tells them (v1.66.0, pkg/importer/http-datasource.go, file.go, checksum.go).
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from harness.embedded.cdi.cancel import Cancel, ChecksumMismatch, TransferFailed
from harness.embedded.cdi.importer_messages import CONNECT_SECONDS, STALL_SECONDS, UNCONNECTED, UNTRANSFERRED, why

CHUNK = 1024 * 1024
MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})


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
