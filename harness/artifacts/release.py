"""The source `release`: programs downloaded from the upstream projects' release sites, always checked by checksum."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from harness.artifacts.catalogue import ReleaseRecipe, fill
from harness.artifacts.recipe import Ref, Source
from harness.errors import InfraError, InfraRetriable

PROBE = "https://dl.k8s.io/release/stable.txt"
PROBE_SECONDS = 3.0
READ_SECONDS = 60.0  # without a single byte
CHUNK = 1 << 20
DOWNLOAD_SECONDS = 30.0  # expected, for the progress display


@cache
def reachable(url: str = PROBE) -> bool:
    """Tell whether the release sites can be reached; asked once per process.

    Asked in a thread, because looking up a name may take far longer than any time-out that a connection can be given.
    """
    answers: list[bool] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PROBE_SECONDS):  # noqa: S310
                answers.append(True)
        except (OSError, http.client.HTTPException):
            answers.append(False)

    thread = threading.Thread(target=ask, name="is the release site reachable", daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return bool(answers) and answers[0]


@dataclass(frozen=True)
class Download:
    """One program of one version, downloaded.

    `bases` replaces release sites by mirrors of them: base URL of the catalogue -> base URL to use.
    """

    ref: Ref
    recipe: ReleaseRecipe
    bases: Mapping[str, str] = field(default_factory=dict)

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
        base = self.bases.get(self.recipe.base, self.recipe.base)
        return f"{base.rstrip('/')}/{fill(template, self.ref.name, self.ref.version)}"

    def ingredients(self) -> Mapping[str, Any]:
        """Return the URLs and what is taken out of them; which mirror serves them makes no difference."""
        original = Download(self.ref, self.recipe)
        return {"url": original.url, "checksum": original.checksum_url, "members": self.recipe.members}

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Download, verify, and take out the members."""
        expected = checksum_for(_text(self.checksum_url), self.url, self.checksum_url)
        if not self.recipe.members:
            download(self.url, target / self.ref.name, expected)
            (target / self.ref.name).chmod(0o755)
            return {"sha256": expected, "url": self.url}
        archive = target / ".archive"
        download(self.url, archive, expected)
        members = {file: fill(member, self.ref.name, self.ref.version) for file, member in self.recipe.members.items()}
        _extract(archive, members, target, self.url)
        archive.unlink()
        return {"sha256": expected, "url": self.url}


def checksum_for(text: str, url: str, checksum_url: str) -> str:
    """Return the SHA-256 of a URL's file out of a checksum file.

    Takes both layouts that release sites use: the bare digest, and lines of `<digest>  <file name>`.

    Raises:
        InfraError: the file has no digest for it.
    """
    name = url.rpartition("/")[2]
    for line in text.splitlines():
        words = line.split()
        if not words or len(words[0]) != 64:
            continue
        if len(words) == 1 or PurePosixPath(words[1].lstrip("*")).name == name:
            return words[0].lower()
    raise InfraError(f"{checksum_url} holds no SHA-256 of {name}", hint="use: --source gomod")


def download(url: str, target: Path, sha256: str) -> None:
    """Download a file and verify it.

    Raises:
        InfraRetriable: the site did not answer, answered 5xx, or broke off.
        InfraError: 404 and the like, or a wrong checksum.
    """
    digest = hashlib.sha256()
    try:
        with _open(url) as answer, target.open("wb") as sink:
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
                sink.write(chunk)
            announced = answer.headers.get("Content-Length")
            if announced is not None and sink.tell() != int(announced):
                raise InfraRetriable(f"{url} broke off: {sink.tell()} of {announced} bytes came", hint="try again")
    except (OSError, http.client.HTTPException) as error:
        raise InfraRetriable(f"{url} broke off: {error}", hint="try again, or use: --source gomod") from error
    if digest.hexdigest() != sha256:
        raise InfraError(
            f"{url} has the wrong checksum: its site promises SHA-256 {sha256}, what came has {digest.hexdigest()}",
            hint="nothing was kept; a proxy or mirror in between may have changed it. Or use: --source gomod",
        )


def _open(url: str) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=READ_SECONDS)  # noqa: S310 - the catalogue's
        return answer
    except urllib.error.HTTPError as error:
        kind = InfraRetriable if error.code >= 500 else InfraError
        with error:
            raise kind(f"{url} answered {error.code} {error.reason}", hint="use: --source gomod") from error
    except (urllib.error.URLError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise InfraRetriable(f"{url} cannot be reached: {reason}", hint="use: --source gomod") from error


def _text(url: str) -> str:
    try:
        with _open(url) as answer:
            return answer.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise InfraRetriable(f"{url} broke off: {error}", hint="try again") from error


def _extract(archive: Path, members: Mapping[str, str], target: Path, url: str) -> None:
    """Take named regular files out of a tar archive, whatever else is in it."""
    wanted = {str(PurePosixPath(member)): file for file, member in members.items()}
    try:
        with tarfile.open(archive, mode="r|*") as stream:
            for entry in stream:
                file = wanted.pop(str(PurePosixPath(entry.name)), None) if entry.isfile() else None
                source = stream.extractfile(entry) if file is not None else None
                if file is None or source is None:
                    continue
                with (target / file).open("wb") as sink:
                    shutil.copyfileobj(source, sink, CHUNK)
                (target / file).chmod(0o755)
                if not wanted:
                    return
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InfraError(f"{url} is not an archive that can be read: {error}") from error
    raise InfraError(f"{url} does not hold {', '.join(sorted(wanted))}", hint="use: --source gomod")
