"""Disk images: what they are, and how they become the raw disk behind a volume.

A disk is finished beside its place and renamed into it, so that the volume holds a whole disk or none.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import proc
from harness.embedded.cdi.cancel import Cancel, TransferFailed
from harness.embedded.cdi.download import CHUNK

INSPECT_SECONDS = 60.0  # qemu-img reads one header
CONVERT_SECONDS = 3600.0  # against hanging; golden_image and golden_stall judge imports
COPY_SECONDS = 3600.0  # against hanging, as above
FORMATS = frozenset({"raw", "qcow2", "vmdk", "vdi", "vpc", "vhdx"})
OPENERS: Mapping[bytes, Callable[[Path], gzip.GzipFile | lzma.LZMAFile]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
PERCENT = re.compile(r"\(\s*([0-9.]+)/100%\)")


def unpacked(path: Path, room: int, cancel: Cancel) -> Path:
    """Return an image without its gzip or xz wrapping; the path itself when it has none.

    Raises:
        TransferFailed: it is damaged, or unpacks to more than `room` bytes.
    """
    with path.open("rb") as packed:
        head = packed.read(6)
    opener = next((o for magic, o in OPENERS.items() if head.startswith(magic)), None)
    if opener is None:
        return path
    target = path.with_suffix(".unpacked")
    try:
        with opener(path) as source, target.open("wb") as sink:
            written = 0
            while block := source.read(CHUNK):
                cancel.check()
                written += len(block)
                if written > room:
                    raise too_large(written, room)
                sink.write(block)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise TransferFailed(f"could not unpack the image: {error}") from error
    path.unlink()
    return target


def convert(image: Path, target: Path, room: int, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
    """Turn an image of any known format into a raw disk of exactly `room` bytes.

    Raises:
        TransferFailed: it is no image, it is larger than the disk, or the host's disk is full.
    """
    form = _inspect(image, room)

    def follow(line: str) -> None:
        cancel.check()
        found = PERCENT.search(line)
        if found:
            on_progress(float(found[1]) / 100.0)

    command: proc.Argv = ["qemu-img", "convert", "-p", "-m", "4", "-W", "-f", form, "-O", "raw", image, target]
    done = proc.run(command, timeout=CONVERT_SECONDS, check=False, on_line=follow)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["qemu-img failed"])[-1]
        raise TransferFailed(f"Unable to convert source data to target format: {last}")
    os.truncate(target, room)


def _inspect(image: Path, room: int) -> str:
    done = proc.run(["qemu-img", "info", "--output=json", image], timeout=INSPECT_SECONDS, check=False)
    if done.returncode != 0:
        raise TransferFailed(f"Unable to convert source data to target format: {done.stderr.strip()}")
    facts = json.loads(done.stdout)
    if facts["format"] not in FORMATS:
        raise TransferFailed(f"Invalid format {facts['format']} for image")
    if facts.get("backing-filename"):
        raise TransferFailed(f"Image is invalid because it has invalid backing file {facts['backing-filename']}")
    if int(facts["virtual-size"]) > room:
        raise too_large(int(facts["virtual-size"]), room)
    return str(facts["format"])


def too_large(image: int, room: int) -> TransferFailed:
    """Return the failure of an image that does not fit its disk."""
    return TransferFailed(
        f"Unable to convert source data to target format: virtual image size {image} is larger than the reported "
        f"available storage {room}. A larger PVC is required"
    )


def clone(source: Path, target: Path, room: int) -> None:
    """Copy a disk, sharing its blocks where the file system can, into a disk of at least its size.

    Raises:
        TransferFailed: the source is gone, or the host's disk is full.
    """
    command: proc.Argv = ["cp", "--sparse=always", "--reflink=auto", source, target]
    done = proc.run(command, timeout=COPY_SECONDS, check=False)
    if done.returncode != 0:
        raise TransferFailed(f"could not copy the source disk: {done.stderr.strip()}")
    if target.stat().st_size < room:
        os.truncate(target, room)


def bytes_used(path: Path) -> int:
    """Return how many bytes of a sparse file are on disk, 0 when there is no such file."""
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0
