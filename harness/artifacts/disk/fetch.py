"""Published disk images: find out their checksum, download them, verify them."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from harness.errors import InfraError, InfraRetriable
from harness.spec.images import UrlSource

READ_SECONDS = 60.0  # without a single byte
CHUNK = 1 << 20
DIGEST_LENGTHS = {64: "sha256", 128: "sha512"}
Told = Callable[[int, int | None], None]


def checksum(source: UrlSource) -> str:
    """Return an image's checksum as "sha256:HEX" or "sha512:HEX", as DataVolumes take it.

    Raises:
        InfraError: the list does not name the image.  InfraRetriable: the list cannot be had.
    """
    if source.checksum is not None:
        return source.checksum
    url = source.checksum_url or ""
    try:
        with _open(url) as answer:
            text = answer.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise InfraRetriable(f"{url} broke off: {error}", hint="try again") from error
    found = listed(text, PurePosixPath(source.url).name)
    if found is None:
        raise InfraError(f"{url} lists no checksum of {PurePosixPath(source.url).name}", hint="check matrix/images.yml")
    return found


def listed(text: str, name: str) -> str | None:
    """Return a file's checksum from a list of `<digest>  <name>` or `<digest> *<name>` lines."""
    for line in text.splitlines():
        digest, _, rest = line.strip().partition(" ")
        if rest.strip().lstrip("*") == name and len(digest) in DIGEST_LENGTHS:
            return f"{DIGEST_LENGTHS[len(digest)]}:{digest.lower()}"
    return None


def download(url: str, expected: str, target: Path, told: Told) -> None:
    """Download a file and verify it.

    Args:
        expected: "sha256:HEX" or "sha512:HEX".
        told: called after every chunk with the bytes so far and the bytes announced, if they were.

    Raises:
        InfraRetriable: no answer, 5xx, or the download broke off.  InfraError: another answer, or a wrong checksum.
    """
    algorithm, _, wanted = expected.partition(":")
    digest = hashlib.new(algorithm)
    with _open(url) as answer, target.open("wb") as sink:
        length = answer.headers.get("Content-Length")
        announced = int(length) if length is not None else None
        try:
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
                sink.write(chunk)
                told(sink.tell(), announced)
        except http.client.IncompleteRead as error:
            sink.write(error.partial)
        except (TimeoutError, ConnectionError) as error:
            raise InfraRetriable(f"{url} broke off after {sink.tell()} bytes: {error}", hint="try again") from error
        if announced is not None and sink.tell() != announced:
            raise InfraRetriable(
                f"{url} broke off: {sink.tell()} of {announced} bytes came", hint="nothing was kept; try again"
            )
    if digest.hexdigest() != wanted:
        raise InfraError(
            f"{url} has the wrong checksum: expected {expected}, got {algorithm}:{digest.hexdigest()}",
            hint="nothing was kept; was the image replaced? Compare with its makers' list and mend matrix/images.yml",
        )


def _open(url: str) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=READ_SECONDS)  # noqa: S310 - http(s) only, by the catalogue's model
        return answer
    except urllib.error.HTTPError as error:
        kind = InfraRetriable if error.code >= 500 else InfraError
        with error:
            raise kind(f"{url} answered {error.code} {error.reason}", hint="check matrix/images.yml") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise InfraRetriable(f"{url} cannot be reached: {reason}", hint="is this machine online?") from error
