"""What a disk image's file says of itself."""

from __future__ import annotations

import struct
from pathlib import Path

from harness.errors import InfraError

GIB = 1 << 30


def virtual_size(image: Path) -> int:
    """Return the virtual size in bytes from a qcow2 file's header. Raises InfraError when the file is not qcow2."""
    with image.open("rb") as handle:
        header = handle.read(32)
    if len(header) < 32 or header[:4] != b"QFI\xfb":
        raise InfraError(f"{image.name} is not a qcow2 image", hint="check the URL in matrix/images.yml", paths=[image])
    return int(struct.unpack(">Q", header[24:32])[0])


def check_fits(image: Path, *, name: str, size_gib: int) -> int:
    """Return the virtual size in bytes if the catalogue's disk can hold it.

    Raises:
        InfraError: the image is larger than its disk.
    """
    size = virtual_size(image)
    if size > size_gib * GIB:
        raise InfraError(
            f"image {name} is larger than its disk: {size / GIB:.1f} GiB do not fit into {size_gib} GiB",
            hint=f"set `size_gib: {-(-size // GIB)}` or more for {name} in matrix/images.yml",
        )
    return size
