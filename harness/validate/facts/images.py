"""Which operating system a machine's disk image has, by matrix/images.yml."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.spec.loader import load_layered
from harness.spec.models.images import ImagesFile
from harness.spec.project import matrix_dir

FILE = "images.yml"


def system_of(image: str) -> tuple[str, str] | None:
    """Return what /etc/os-release has as ID and VERSION_ID on machines of an image; None for an unknown image."""
    return _read(matrix_dir()).get(image)


@cache
def _read(directory: Path) -> dict[str, tuple[str, str]]:
    return {one.name: (one.os, one.version) for one in load_layered(directory, FILE, ImagesFile).images}
