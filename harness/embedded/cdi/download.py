"""Streaming of an HTTP body into a file: checksum on the way, progress, and a way to stop it at any moment."""

from __future__ import annotations

import base64
import hashlib
import http.client
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO

from harness.embedded.cdi.cancel import Cancel, ChecksumMismatch, TransferFailed

CHUNK = 1024 * 1024
CONNECT_SECONDS = 15.0  # policy: a server that accepts no connection by then is down; CDI retries
STALL_SECONDS = 600.0  # CDI's importer gives up on a body that brings nothing for ten minutes
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
    try:
        _fetch(request, sink, cancel, on_progress)
    except (OSError, http.client.HTTPException, ValueError) as error:
        cancel.check()
        raise TransferFailed(_explain(request.url, error)) from error
    finally:
        cancel.watch(None)


def _fetch(request: Request, sink: IO[bytes], cancel: Cancel, on_progress: Callable[[float], None]) -> None:
    url = request.url
    for _ in range(MAX_REDIRECTS):
        connection, answer = _open(url, request, cancel)
        try:
            if answer.status in REDIRECTS:
                url = urllib.parse.urljoin(url, answer.getheader("Location") or "")
                continue
            if answer.status != 200:
                raise TransferFailed(
                    f"expected status code 200, got {answer.status}. Status: {answer.status} {answer.reason}"
                )
            _copy(answer, sink, request.checksum, cancel, on_progress)
            return
        finally:
            cancel.watch(None)
            connection.close()
    raise TransferFailed(f'Get "{request.url}": stopped after {MAX_REDIRECTS} redirects')


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
        sink.write(block)
        if digest is not None:
            digest.update(block)
        done += len(block)
        if total:
            on_progress(done / total)
    cancel.check()
    if done < total:
        raise TransferFailed(f"unexpected EOF: the server sent {done} of {total} bytes")
    if digest is not None and digest.hexdigest() != expected.lower():
        raise ChecksumMismatch(f"checksum mismatch: expected {expected.lower()}, got {digest.hexdigest()}")


def _explain(url: str, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f'Get "{url}": no data within {STALL_SECONDS:.0f} s or no connection within {CONNECT_SECONDS:.0f} s'
    if isinstance(error, ssl.SSLCertVerificationError):
        return f'Get "{url}": tls: failed to verify certificate: {error.verify_message}'
    if isinstance(error, OSError) and error.strerror:
        return f'Get "{url}": {error.strerror.lower()}'
    return f'Get "{url}": {error or type(error).__name__}'
