"""Programs and files that commands take of the providers' artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.infra.kind import releases
from harness.providers.on_host import KUBERNETES
from harness.providers.site import store_of
from harness.spec.project import timeouts_of
from harness.spec.settings import Settings


def kubectl(settings: Settings) -> Path:
    """Return the program kubectl from the artifacts, made first if need be."""
    return store_of(settings, timeouts_of(settings)).obtain("kubectl", KUBERNETES).file("kubectl")


def pin_releases(file: Path | None) -> Iterator[tuple[str, str]]:
    """Record the checksums that deploy/kind/releases.yml (or another file) lacks; yield each with its URL.

    Raises:
        BadInput: the file is wrong, or the project has none.  InfraError: a manifest cannot be downloaded.
    """
    for manifest, checksum in releases.pin(file or releases.own_file()):
        yield checksum, manifest.url
