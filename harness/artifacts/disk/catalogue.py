"""The catalogue of disk images, matrix/images.yml: loaded, and searched by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadInput
from harness.spec.loader import load_layered
from harness.spec.models import DiskImage
from harness.spec.models.images import ImagesFile


@dataclass(frozen=True)
class ImageCatalogue:
    """Disk images in the file's order."""

    images: tuple[DiskImage, ...]

    def find(self, name: str) -> DiskImage:
        """Return an image by its name. Raises BadInput when there is none; says which name is near."""
        images = {image.name: image for image in self.images}
        if name in images:
            return images[name]
        near = difflib.get_close_matches(name, images, n=1)
        raise BadInput(
            f"there is no disk image named {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
            hint=f"known images: {', '.join(images)}; see `vmatrix image list`",
        )


def load(file: Path) -> ImageCatalogue:
    """Load a catalogue, over the packaged one. Raises BadInput with one line per error: file and line."""
    return ImageCatalogue(load_layered(file.parent, file.name, ImagesFile).images)
