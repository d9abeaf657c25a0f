"""A node image as the archive that `docker load` and `podman load` read: its file system as one layer, and how it runs.

The format: https://github.com/moby/docker-image-spec/blob/main/v1.2.md#combined-image-json--filesystem-changeset-format
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from harness.artifacts.images import PATH, of_layers
from harness.files import sha256_of

LAYER = "layer.tar"
# How kind's nodes are started and stopped (images/base/Dockerfile in its sources); systemd ends on this signal.
CONFIG = {
    "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
    "Env": [f"PATH={PATH}", "container=docker"],
    "StopSignal": "SIGRTMIN+3",
}


def write(target: Path, layer: Path, reference: str) -> None:
    """Write the archive of an image, called `reference` (NAME:TAG), of one layer: a tar archive of its file system."""
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": [LAYER]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, "config.json", of_layers([sha256_of(layer)], CONFIG))
        archive.add(layer, arcname=LAYER)
        _add(archive, "manifest.json", manifest)


def _add(archive: tarfile.TarFile, name: str, content: object) -> None:
    raw = json.dumps(content).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(raw)
    archive.addfile(entry, io.BytesIO(raw))
