"""The source `release`: programs downloaded from the upstream projects' release sites, always checked by checksum."""

from __future__ import annotations

import shutil
import tarfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from harness.artifacts.catalogue import ReleaseRecipe, fill
from harness.artifacts.download import CHUNK, download, listed, text
from harness.artifacts.recipe import Ref, Source
from harness.errors import InfraError
from harness.http_client import NoAnswer, WebRequest
from harness.http_client import ask as request

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

    def ask() -> None:
        with suppress(NoAnswer):
            answers.append(request(WebRequest(url, "HEAD"), PROBE_SECONDS).ok)

    thread = threading.Thread(target=ask, name="is the release site reachable", daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return any(answers)


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
        name = PurePosixPath(self.url).name
        expected = listed(text(self.checksum_url, hint=HINT), name)
        if expected is None or not expected.startswith("sha256:"):
            raise InfraError(f"{self.checksum_url} lists no SHA-256 of {name}", hint=HINT)
        archive = target / (".archive" if self.recipe.members else self.ref.name)
        download(self.url, expected, archive, hint=HINT)
        if self.recipe.members:
            named = {
                file: fill(member, self.ref.name, self.ref.version) for file, member in self.recipe.members.items()
            }
            _extract(archive, named, target, self.url)
            archive.unlink()
        else:
            archive.chmod(0o755)
        return {"sha256": expected.removeprefix("sha256:"), "url": self.url}


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
        raise InfraError(f"{url} is not a readable archive: {error}") from error
    raise InfraError(f"{url} does not contain {', '.join(sorted(wanted))}", hint=HINT)
