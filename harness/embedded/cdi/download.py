"""HTTP import: stream a body into a file, verify its checksum, report progress, stop at any moment.

Failures are worded as CDI's importer words them (v1.66.0, cmd/cdi-importer, pkg/importer/http-datasource.go,
file.go, checksum.go), and Go's library those of networks.
"""

from __future__ import annotations

import base64
import errno
import gzip
import hashlib
import http.client
import json
import lzma
import os
import re
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness import proc

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


INSPECT_SECONDS = 60.0  # qemu-img reads one header
CONVERT_SECONDS = 3600.0  # against hanging; golden_image and golden_stall judge imports
COPY_SECONDS = 3600.0  # against hanging, as above
FORMATS = frozenset({"raw", "qcow2", "vmdk", "vdi", "vpc", "vhdx"})
OPENERS: Mapping[bytes, Callable[[Path], gzip.GzipFile | lzma.LZMAFile]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
PERCENT = re.compile(r"\(\s*([0-9.]+)/100%\)")


def unpacked(path: Path, room: int, cancel: Cancel) -> Path:
    """Return an image without its gzip or xz wrapping; the path itself when it has none.

    Raises:
        TransferFailed: it is damaged, or unpacks to more than `room` bytes.
    """
    with path.open("rb") as packed:
        head = packed.read(6)
    opener = next((o for magic, o in OPENERS.items() if head.startswith(magic)), None)
    if opener is None:
        return path
    target = path.with_suffix(".unpacked")
    try:
        with opener(path) as source, target.open("wb") as sink:
            written = 0
            while block := source.read(CHUNK):
                cancel.check()
                written += len(block)
                if written <= room:
                    sink.write(block)
    except (OSError, EOFError, lzma.LZMAError) as error:
        full = isinstance(error, OSError) and error.errno in FULL
        why = "unable to write to file: write /scratch/tmpimage" if full else "failed to pull image"
        text = (error.strerror or "").lower() if isinstance(error, OSError) and full else error
        raise TransferFailed(f"{UNTRANSFERRED}: {why}: {text}") from error
    if written > room:
        raise TransferFailed(f"{UNCONVERTED}: {larger(written, room)}")
    path.unlink()
    return target


def convert(image: Path, target: Path, room: int, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
    """Turn an image of any known format into a raw disk of its size, `room` bytes at most.

    Raises:
        TransferFailed: it is not an image, it is larger than that, or the host's disk is full.
    """
    form = _inspect(image, room)

    def follow(line: str) -> None:
        cancel.check()
        match = PERCENT.search(line)
        if match:
            on_progress(float(match[1]) / 100.0)

    command: proc.Argv = ["qemu-img", "convert", "-p", "-m", "4", "-W", "-f", form, "-O", "raw", image, target]
    done = proc.run(command, timeout=CONVERT_SECONDS, check=False, on_line=follow)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["qemu-img failed"])[-1]
        raise TransferFailed(
            f"{UNCONVERTED}: Conversion to Raw failed: could not convert image to raw: qemu-img execution failed: "
            f"{last} : exit status {done.returncode}"
        )


def grow(disk: Path, room: int) -> None:
    """Make a raw disk as large as was asked for; one that is larger stays as it is."""
    if disk.stat().st_size < room:
        os.truncate(disk, room)


def _inspect(image: Path, room: int) -> str:
    done = proc.run(["qemu-img", "info", "--output=json", image], timeout=INSPECT_SECONDS, check=False)
    if done.returncode != 0:
        why = f"{done.stderr.strip()} : exit status {done.returncode}"
        raise TransferFailed(f"{UNCONVERTED}: qemu-img execution failed: {why}")
    facts = json.loads(done.stdout)
    backing = facts.get("backing-filename")
    if facts["format"] not in FORMATS:
        raise TransferFailed(f"{UNCONVERTED}: Invalid format {facts['format']} for image /scratch/tmpimage")
    if backing:
        why = f"Image /scratch/tmpimage is invalid because it has invalid backing file {backing}"
        raise TransferFailed(f"{UNCONVERTED}: {why}")
    if int(facts["virtual-size"]) > room:
        raise TransferFailed(f"{UNCONVERTED}: {larger(int(facts['virtual-size']), room)}")
    return str(facts["format"])


def larger(image: int, room: int) -> str:
    """Return what is said of an image that does not fit its disk."""
    return f"virtual image size {image} is larger than the reported available storage {room}. A larger PVC is required"


def clone(source: Path, target: Path, room: int) -> None:
    """Copy a disk, sharing its blocks where the file system can, into a disk of at least its size.

    Raises:
        TransferFailed: the source is gone, or the host's disk is full.
    """
    command: proc.Argv = ["cp", "--sparse=always", "--reflink=auto", source, target]
    done = proc.run(command, timeout=COPY_SECONDS, check=False)
    if done.returncode != 0:
        raise TransferFailed(f"could not copy the source disk: {done.stderr.strip()}")
    grow(target, room)


def bytes_used(path: Path) -> int:
    """Return how many bytes of a sparse file are on disk, 0 when there is no such file."""
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0
