"""The catalogue of disk images, matrix/images.yml: loaded, and searched by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadInput
from harness.spec import lines
from harness.spec.loader import refuse, validate
from harness.spec.models import DiskImage
from harness.spec.models.images import ImagesFile


@dataclass(frozen=True)
class ImageCatalogue:
    """Disk images in the file's order."""

    images: tuple[DiskImage, ...]

    def find(self, name: str) -> DiskImage:
        """Return an image by its name.

        Raises:
            BadInput: there is none; says which name is near.
        """
        for image in self.images:
            if image.name == name:
                return image
        names = [image.name for image in self.images]
        near = difflib.get_close_matches(name, names, n=1)
        raise BadInput(
            f"there is no disk image named {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
            hint=f"known images: {', '.join(names)}; see `vmatrix image list`",
        )


def load(file: Path) -> ImageCatalogue:
    """Load a catalogue.

    Raises:
        BadInput: one line per error, with file and line.
    """
    document, problems = lines.read(file)
    if not problems:
        parsed, problems = validate(document, ImagesFile)
        if parsed is not None:
            return ImageCatalogue(parsed.images)
    raise refuse(problems)
