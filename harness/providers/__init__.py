"""Providers of infra clusters: a registry by name, and the site that a run's cells see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.infra.kind import downloads, releases
from harness.infra.kubeconfig import NAME as KUBECONFIG
from harness.providers.definition import Definition, InstanceProvider, Opening
from harness.providers.kubeconfig import use_of
from harness.providers.offered import offer_of, refuse_unusable
from harness.providers.on_host import KUBERNETES, take_down
from harness.providers.registry import holder, named, names, of
from harness.providers.site import (
    coming,
    first_look,
    golden_image,
    image_findings,
    image_mirror,
    join_site,
    keeper,
    open_cluster,
    open_site,
    spoken,
    store_of,
)
from harness.providers.trial import trial_of
from harness.spec.project import timeouts_of
from harness.spec.settings import Settings

__all__ = [
    "KUBECONFIG",
    "KUBERNETES",
    "Definition",
    "InstanceProvider",
    "Opening",
    "coming",
    "first_look",
    "golden_image",
    "holder",
    "image_findings",
    "image_mirror",
    "join_site",
    "keeper",
    "kubectl",
    "named",
    "names",
    "of",
    "offer_of",
    "open_cluster",
    "open_site",
    "pin_releases",
    "refuse_unusable",
    "spoken",
    "store_of",
    "take_down",
    "trial_of",
    "use_of",
]


def kubectl(settings: Settings) -> Path:
    """Return the program kubectl from the artifacts, made first if need be."""
    return store_of(settings, timeouts_of(settings)).obtain("kubectl", KUBERNETES).file("kubectl")


def pin_releases(file: Path | None) -> Iterator[tuple[str, str]]:
    """Record the checksums that deploy/kind/releases.yml (or another file) lacks; yield each with its URL.

    Raises:
        BadInput: the file is wrong, or the project has none.  InfraError: a manifest cannot be downloaded.
    """
    for manifest, checksum in downloads.pin(file or releases.own_file()):
        yield checksum, manifest.url
