"""Which releases of KubeVirt and CDI are installed: deploy/kind/releases.yml, with the checksum of every manifest.

A checksum is recorded once, on purpose, by `vmatrix infra pin`, and committed; from then on every download has to have
it. Nothing is ever installed that has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import StringConstraints

from harness.errors import BadInput
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
