"""Files from web sites, verified by their checksum: published disk images, and the source `release`.

A release is a program downloaded from the upstream project's release site.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import netrc
import re
import shutil
import ssl
import tarfile
import threading
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from harness import threads
from harness.artifacts.catalogue import ReleaseRecipe, fill
from harness.artifacts.recipe import Ref, Source
from harness.errors import BadInput, InfraError, InfraRetriable
from harness.http_client import NoAnswer, WebRequest, ask, opened, reason, within

READ_SECONDS = 60.0  # without a single byte
PACE_SECONDS = 120.0  # policy: a site that is slow for so long will not become faster
PACE_BYTES = 20 * 1024  # a second, over that time: less than that, and 100 MB take more than an hour
HEAD_SECONDS = 10.0  # one answer without a body; asked ahead of a download that has its own time
ABSENT = ("answers 404", "answers 410")
CHUNK = 1 << 20
DIGESTS = {64: "sha256", 128: "sha512"}  # by hexadecimal digits
DIGEST_FIRST = re.compile(r"\\?(?:sha(?:256|512):)?(?P<digest>[0-9A-Fa-f]+)(?:[ \t]+\*?(?P<name>.*))?")
# SHA256 (file) = HEX
NAME_FIRST = re.compile(r"(?P<algorithm>[-A-Za-z0-9/]+) ?\((?P<name>.+)\) ?= ?(?P<digest>[0-9A-Fa-f]+)")
SIGNATURE = re.compile(r"^-----BEGIN PGP SIGNATURE-----.*", re.MULTILINE | re.DOTALL)
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
            for chunk in _chunks(url, answer):
                digest.update(chunk)
                sink.write(chunk)
                told(sink.tell(), announced)
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
            return b"".join(_chunks(url, answer)).decode("utf-8", errors="replace")
    except BROKEN as error:
        raise InfraRetriable(f"{url} was cut off: {error}", hint="try again") from error


def _chunks(url: str, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield what comes as it comes; InfraRetriable from a site that only drips."""
    since, received = monotonic(), 0
    while chunk := answer.read1(CHUNK):
        threads.check()
        yield chunk
        received += len(chunk)
        now = monotonic()
        if now - since >= PACE_SECONDS:
            if received < PACE_BYTES * (now - since):
                message = f"{url} is too slow: {received} bytes in {now - since:.0f} s"
                raise InfraRetriable(message, hint="try again, or use a mirror of the site")
            since, received = now, 0


@dataclass(frozen=True)
class ListedFile:
    """An entry of a list of checksums: the name as the list has it, "" of a digest alone, and "sha256:HEX" or so."""

    name: str
    checksum: str


def entries(checksums: str) -> list[ListedFile]:
    """Return the entries of a list of checksums; those of other algorithms than SHA-256 and SHA-512 are left out.

    Takes what coreutils, BSD's and OpenSSL's programs print, also with comments or signed by PGP, and digests alone.
    """
    listing = []
    for line in SIGNATURE.sub("", checksums.removeprefix("\ufeff")).splitlines():
        match = NAME_FIRST.fullmatch(line.strip()) or DIGEST_FIRST.fullmatch(line.strip())
        digest = match["digest"].lower() if match else ""
        algorithm = match.groupdict().get("algorithm") if match else None
        if match and len(digest) in DIGESTS and (algorithm is None or _plain(algorithm) == DIGESTS[len(digest)]):
            listing.append(ListedFile((match["name"] or "").strip(), f"{DIGESTS[len(digest)]}:{digest}"))
    return listing


def _plain(algorithm: str) -> str:
    """Return SHA256, SHA-256 and SHA2-256 as sha256; others, such as BLAKE2b and SM3, have digests as long as these."""
    return re.sub(r"^sha2?-", "sha", algorithm.lower())


def listed(checksums: str, path: str) -> str | None:
    """Return a file's checksum as "sha256:HEX" or "sha512:HEX"; None where the list has none, or several that differ.

    Args:
        checksums: what `entries` takes.
        path: the file's, or its name; of files of one name in several folders, the one whose path ends like this.
    """
    whole, every = PurePosixPath(path), entries(checksums)
    named = [entry for entry in every if not entry.name or PurePosixPath(entry.name).name == whole.name]
    exact = [entry for entry in named if entry.name and whole.match(entry.name.removeprefix("./").lstrip("/"))]
    for algorithm in ("sha512", "sha256"):
        said = {entry.checksum for entry in exact or named if entry.checksum.startswith(f"{algorithm}:")}
        if said:
            return said.pop() if len(said) == 1 else None
    return None


def trouble(url: str) -> str | None:
    """Return what is wrong with a file at an address, as a site or the way there says; None when it can be had."""
    try:
        reply = ask(WebRequest(url, "HEAD", secrets=_login(url)), HEAD_SECONDS)
    except NoAnswer as error:
        return f"cannot be reached: {error}"
    return None if reply.ok else f"answers {reply.status} {reply.reason}"


def _login(url: str) -> dict[str, str]:
    """Return the header of the login that the user's .netrc has for the site, as curl -n and apt send it."""
    try:
        login = netrc.netrc().authenticators(urlsplit(url).hostname or "")
    except (OSError, netrc.NetrcParseError):
        login = None
    if login is None:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{login[0]}:{login[2]}'.encode()).decode()}"}


def _open(url: str, hint: str) -> http.client.HTTPResponse:
    try:
        with within(READ_SECONDS):  # for its head; the body has a pace to keep
            return opened(WebRequest(url, secrets=_login(url)), READ_SECONDS)
    except urllib.error.HTTPError as error:
        kind = InfraRetriable if error.code >= 500 else InfraError
        with error:
            raise kind(f"{url} answered {error.code} {error.reason}", hint=hint) from error
    except (OSError, http.client.HTTPException) as error:
        raise InfraRetriable(f"{url} cannot be reached: {reason(error)}", hint=hint) from error


PROBE = "https://dl.k8s.io/release/stable.txt"
PROBE_SECONDS = 3.0  # no answer by then: build from source instead
DOWNLOAD_SECONDS = 30.0  # expected, for the progress display
HINT = "to build it instead: --source gomod"


@cache
def reachable(url: str = PROBE) -> bool:
    """Tell whether the release sites can be reached; asked once per process.

    Asked in a thread, because looking up a name may take far longer than any time-out that a connection can be given.
    """
    answers: list[bool] = []

    def probe() -> None:
        with suppress(NoAnswer):
            answers.append(ask(WebRequest(url, "HEAD"), PROBE_SECONDS).ok)

    thread = threading.Thread(target=probe, name="is the release site reachable", daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return any(answers)


@dataclass(frozen=True)
class Download:
    """One program of one version, downloaded.

    bases: mirrors of release sites (base URL of the catalogue -> base URL to use).
    where: the place in a project's file that says so, with its own checksum.
    """

    ref: Ref
    recipe: ReleaseRecipe
    bases: Mapping[str, str] = field(default_factory=dict)
    where: str = ""

    @property
    def source(self) -> str:
        """Return the source's name."""
        return Source.RELEASE

    @property
    def seconds(self) -> float:
        """Return a guess."""
        return DOWNLOAD_SECONDS

    @property
    def url(self) -> str:
        """Return the URL of the file or archive."""
        return self._url(self.recipe.url)

    @property
    def checksum_url(self) -> str:
        """Return the URL of the file that holds its SHA-256."""
        return self._url(self.recipe.checksum_url)

    def _url(self, template: str) -> str:
        path = fill(template, self.ref.name, self.ref.version)
        base = self.bases.get(self.recipe.base, self.recipe.base)
        return f"{base.rstrip('/')}/{path}" if base else path

    def refuse_absent(self) -> None:
        """Refuse an address that says it has nothing; one that does not answer says nothing. Raises BadInput."""
        if (reason := trouble(self.url)) is not None and reason.startswith(ABSENT):
            raise BadInput(
                f"{self.where}.url: {self.url} {reason}: no source has {self.ref.name} {self.ref.version}",
                hint="correct the address, or remove the version",
            )

    def ingredients(self) -> Mapping[str, Any]:
        """Return the URLs and what is taken out of them; which mirror serves them makes no difference."""
        original = Download(self.ref, self.recipe)
        checksum = self.recipe.checksum or original.checksum_url
        return {"url": original.url, "checksum": checksum, "members": self.recipe.members}

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Download, verify, and take out the members."""
        expected, hint = self.recipe.checksum, f"correct {self.where}"
        if not expected:
            name, hint = PurePosixPath(self.url).name, HINT
            expected = listed(text(self.checksum_url, hint=HINT), name) or ""
            if not expected.startswith("sha256:"):
                raise InfraError(f"{self.checksum_url} lists no SHA-256 of {name}", hint=HINT)
        archive = target / (".archive" if self.recipe.members else self.ref.name)
        download(self.url, expected, archive, hint=hint)
        if self.recipe.members:
            named = {
                file: fill(member, self.ref.name, self.ref.version) for file, member in self.recipe.members.items()
            }
            _extract(archive, named, target, self.url)
            archive.unlink()
        else:
            archive.chmod(0o755)
        algorithm, _, digest = expected.partition(":")
        return {algorithm: digest, "url": self.url}


def _extract(archive: Path, members: Mapping[str, str], target: Path, url: str) -> None:
    """Take named regular files out of a tar archive, whatever else is in it."""
    targets = {str(PurePosixPath(member)): file for file, member in members.items()}
    try:
        with tarfile.open(archive, mode="r|*") as stream:
            for entry in stream:
                file = targets.pop(str(PurePosixPath(entry.name)), None) if entry.isfile() else None
                source = stream.extractfile(entry) if file is not None else None
                if file is None or source is None:
                    continue
                with (target / file).open("wb") as sink:
                    shutil.copyfileobj(source, sink, CHUNK)
                (target / file).chmod(0o755)
                if not targets:
                    return
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InfraError(f"{url} is not a readable archive: {error}") from error
    raise InfraError(f"{url} does not contain {', '.join(sorted(targets))}", hint=HINT)
