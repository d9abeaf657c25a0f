"""Releases of KubeVirt and CDI: deploy/kind/releases.yml, with the checksum of every manifest, and their downloads.

A checksum is recorded once, on purpose, by `vmatrix infra pin`, and committed; from then on every download has to have
it. Nothing is ever installed that has none.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import StringConstraints

from harness import paths
from harness.errors import BadInput, InfraError, InfraRetriable
from harness.files import write_atomically
from harness.http_deadline import opened, within
from harness.paths import overlaid, packaged_dir, project_dir
from harness.spec import lines
from harness.spec.base import Model
from harness.spec.loader import load_file

PIN = "vmatrix infra pin"
FILE = Path("deploy", "kind", "releases.yml")


class Manifest(Model):
    """One file of a release; `sha256` is empty until it is pinned."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")] = ""

    @property
    def name(self) -> str:
        """Return the file's name."""
        return PurePosixPath(urlsplit(self.url).path).name


class Release(Model):
    """One project's release: its operator, and the custom resource that makes the operator deploy."""

    version: str
    operator: Manifest
    resource: Manifest

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """Return its files."""
        return (self.operator, self.resource)


class ReleasesFile(Model):
    """deploy/kind/releases.yml."""

    kubevirt: Release
    cdi: Release


@dataclass(frozen=True)
class Releases:
    """The file as it was read, and what its lines are."""

    file: Path
    kubevirt: Release
    cdi: Release
    document: lines.Document

    def unpinned(self) -> list[lines.Problem]:
        """Return the manifests without a checksum, by line."""
        return [
            self.document.problem((project, part), f"{manifest.name} has no sha256")
            for project, release in (("kubevirt", self.kubevirt), ("cdi", self.cdi))
            for part, manifest in (("operator", release.operator), ("resource", release.resource))
            if not manifest.sha256
        ]


def default_file() -> Path:
    """Return the project's file, or the packaged one where it has none."""
    return overlaid(*FILE.parts)


def own_file() -> Path:
    """Return the project's file, to be written. Raises BadInput when it has none: nothing is written to the package."""
    file = project_dir() / FILE
    if not file.is_file():
        raise BadInput(
            f"the project has no {FILE}",
            hint=f"copy {packaged_dir() / FILE} to {file}, or name another with --releases",
        )
    return file


def load(file: Path) -> Releases:
    """Read the releases. Raises BadInput with every mistake and its line."""
    parsed, document = load_file(file, ReleasesFile)
    return Releases(file, parsed.kubevirt, parsed.cdi, document)


def require_pinned(releases: Releases) -> None:
    """Refuse releases of which a manifest has no checksum.

    Raises:
        BadInput: with the lines, and the command that records them.
    """
    missing = releases.unpinned()
    if missing:
        raise BadInput(
            f"{missing[0]}" + (f", and {len(missing) - 1} more" if len(missing) > 1 else ""),
            hint=f"run {PIN}, compare the checksums with what the projects publish, then commit the file",
            detail="\n".join(map(str, missing)),
            paths=[releases.file],
        )


READ_SECONDS = 60.0  # without a single byte
WHOLE_SECONDS = 300.0  # half a MiB, over the slowest line that anybody would pull images over
LARGEST = 64 << 20  # bytes; KubeVirt's operator manifest has 0.5 MiB


def pin(file: Path) -> Iterator[tuple[Manifest, str]]:
    """Download every manifest without a checksum, record its checksum in the file, and yield both.

    Raises:
        BadInput: the file is wrong.  InfraError: a manifest cannot be downloaded.
    """
    releases = load(file)
    for manifest in (*releases.kubevirt.manifests, *releases.cdi.manifests):
        if manifest.sha256:
            continue
        found = hashlib.sha256(_download(manifest.url)).hexdigest()
        text = file.read_text(encoding="utf-8")
        line = rf'(\burl: {re.escape(manifest.url)}, sha256: )""'
        changed, count = re.subn(line, rf'\g<1>"{found}"', text)
        if count != 1:
            raise BadInput(
                f"{file} names {manifest.url} in a form that cannot be pinned",
                hint=f'write it as {{url: {manifest.url}, sha256: ""}} on one line',
            )
        write_atomically(file, changed)
        yield manifest, found


def obtain(manifest: Manifest, cache: Path | None = None) -> str:
    """Return a manifest's text, downloaded at most once, whole and with its checksum.

    Raises:
        InfraError: it cannot be downloaded, or has another checksum.
    """
    folder = cache if cache is not None else paths.cache_dir() / "releases"
    kept = folder / manifest.sha256
    if kept.is_file() and hashlib.sha256(kept.read_bytes()).hexdigest() == manifest.sha256:
        return kept.read_text(encoding="utf-8")
    content = _download(manifest.url)
    found = hashlib.sha256(content).hexdigest()
    if found != manifest.sha256:
        raise InfraError(
            f"{manifest.url} has the wrong checksum: expected sha256 {manifest.sha256}, got {found}",
            hint="nothing was installed; check with the project why the release changed before you pin it again",
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, content)
    return content.decode("utf-8", errors="replace")


def _download(url: str) -> bytes:
    try:
        request = urllib.request.Request(url)  # noqa: S310 - http(s) only, by the model
        with within(WHOLE_SECONDS), opened(request, READ_SECONDS) as answer:
            content: bytes = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        with error:
            kind = InfraRetriable if error.code >= http.client.INTERNAL_SERVER_ERROR else InfraError
            raise kind(f"{url} answered {error.code} {error.reason}", hint="check the URL of the release") from error
    except (OSError, http.client.HTTPException) as error:
        hint = "check the internet connection; without one, use --kubevirt embedded"
        raise InfraRetriable(f"{url} could not be downloaded: {getattr(error, 'reason', error)}", hint=hint) from error
    if len(content) > LARGEST:
        raise InfraError(f"{url} is larger than {LARGEST >> 20} MiB, too large for a manifest")
    return content
