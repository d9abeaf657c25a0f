"""Files from web sites, verified by their checksum: programs of release sites, and published disk images."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from harness.errors import InfraError, InfraRetriable

READ_SECONDS = 60.0  # without a single byte
CHUNK = 1 << 20
DIGESTS = {64: "sha256", 128: "sha512"}  # by hexadecimal digits
BROKEN = (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException)
Told = Callable[[int, int | None], None]


def download(url: str, expected: str, target: Path, *, hint: str, told: Told = lambda so_far, announced: None) -> None:
    """Download a file and verify it.

    Args:
        expected: "sha256:HEX" or "sha512:HEX".
        hint: what to do when the site does not have the file, or has another one.
        told: called after every chunk with the bytes so far and the bytes announced, if they were.

    Raises:
        InfraRetriable: no answer, 5xx, or the download broke off.  InfraError: another answer, or a wrong checksum.
        OSError: the file could not be written.
    """
    algorithm, _, wanted = expected.partition(":")
    digest = hashlib.new(algorithm)
    with _open(url, hint) as answer, target.open("wb") as sink:
        length = answer.headers.get("Content-Length")
        announced = int(length) if length is not None else None
        try:
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
                sink.write(chunk)
                told(sink.tell(), announced)
        except http.client.IncompleteRead as error:
            sink.write(error.partial)
        except BROKEN as error:
            raise InfraRetriable(f"{url} was cut off after {sink.tell()} bytes: {error}", hint="try again") from error
        if announced is not None and sink.tell() != announced:
            raise InfraRetriable(f"{url} was cut off: {sink.tell()} of {announced} bytes received", hint="try again")
    if digest.hexdigest() != wanted:
        raise InfraError(
            f"{url} has the wrong checksum: expected {expected}, got {algorithm}:{digest.hexdigest()}",
            hint=f"nothing was kept; did the site, or a proxy in between, replace the file? {hint}",
        )


def text(url: str, *, hint: str) -> str:
    """Return a short text; raises InfraRetriable and InfraError as `download` does."""
    try:
        with _open(url, hint) as answer:
            return answer.read().decode("utf-8", errors="replace")
    except BROKEN as error:
        raise InfraRetriable(f"{url} was cut off: {error}", hint="try again") from error


def listed(checksums: str, name: str) -> str | None:
    """Return a file's checksum as "sha256:HEX" or "sha512:HEX", None where the list does not name it.

    Args:
        checksums: lines of `<digest>  <name>` or `<digest> *<name>`, or a bare digest.
    """
    for line in checksums.splitlines():
        digest, named, *_ = [*line.split(maxsplit=1), "", ""]
        if len(digest) in DIGESTS and PurePosixPath(named.strip().lstrip("*") or name).name == name:
            return f"{DIGESTS[len(digest)]}:{digest.lower()}"
    return None


def _open(url: str, hint: str) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=READ_SECONDS)  # noqa: S310 - http(s) only, by the models of both catalogues
        return answer
    except urllib.error.HTTPError as error:
        kind = InfraRetriable if error.code >= 500 else InfraError
        with error:
            raise kind(f"{url} answered {error.code} {error.reason}", hint=hint) from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise InfraRetriable(f"{url} cannot be reached: {getattr(error, 'reason', error)}", hint=hint) from error
