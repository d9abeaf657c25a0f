"""Disk images: detect the format, unpack, convert to the raw disk behind a volume, clone.

A disk is finished beside its place and renamed into it, so that the volume holds a whole disk or none. Failures are
told as CDI's importer tells them (v1.66.0, pkg/image/qemu.go, pkg/importer/data-processor.go).
"""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import proc
from harness.embedded.cdi.download import CHUNK, UNCONVERTED, UNTRANSFERRED, Cancel, TransferFailed

INSPECT_SECONDS = 60.0  # qemu-img reads one header
CONVERT_SECONDS = 3600.0  # against hanging; golden_image and golden_stall judge imports
COPY_SECONDS = 3600.0  # against hanging, as above
FORMATS = frozenset({"raw", "qcow2", "vmdk", "vdi", "vpc", "vhdx"})
OPENERS: Mapping[bytes, Callable[[Path], gzip.GzipFile | lzma.LZMAFile]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
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
                if written <= room:
                    sink.write(block)
    except (OSError, EOFError, lzma.LZMAError) as error:
        full = isinstance(error, OSError) and error.errno in FULL
        why = "unable to write to file: write /scratch/tmpimage" if full else "failed to pull image"
        text = (error.strerror or "").lower() if isinstance(error, OSError) and full else error
        raise TransferFailed(f"{UNTRANSFERRED}: {why}: {text}") from error
    if written > room:
        raise TransferFailed(f"{UNCONVERTED}: {larger(written, room)}")
    path.unlink()
    return target


def convert(image: Path, target: Path, room: int, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
    """Turn an image of any known format into a raw disk of its size, `room` bytes at most.

    Raises:
        TransferFailed: it is no image, it is larger than that, or the host's disk is full.
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
        raise TransferFailed(
            f"{UNCONVERTED}: Conversion to Raw failed: could not convert image to raw: qemu-img execution failed: "
            f"{last} : exit status {done.returncode}"
        )


def grow(disk: Path, room: int) -> None:
    """Make a raw disk as large as was asked for; one that is larger stays as it is."""
    if disk.stat().st_size < room:
        os.truncate(disk, room)


def _inspect(image: Path, room: int) -> str:
    done = proc.run(["qemu-img", "info", "--output=json", image], timeout=INSPECT_SECONDS, check=False)
    if done.returncode != 0:
        why = f"{done.stderr.strip()} : exit status {done.returncode}"
        raise TransferFailed(f"{UNCONVERTED}: qemu-img execution failed: {why}")
    facts = json.loads(done.stdout)
    backing = facts.get("backing-filename")
    if facts["format"] not in FORMATS:
        raise TransferFailed(f"{UNCONVERTED}: Invalid format {facts['format']} for image /scratch/tmpimage")
    if backing:
        why = f"Image /scratch/tmpimage is invalid because it has invalid backing file {backing}"
        raise TransferFailed(f"{UNCONVERTED}: {why}")
    if int(facts["virtual-size"]) > room:
        raise TransferFailed(f"{UNCONVERTED}: {larger(int(facts['virtual-size']), room)}")
    return str(facts["format"])


def larger(image: int, room: int) -> str:
    """Return what is said of an image that does not fit its disk."""
    return f"virtual image size {image} is larger than the reported available storage {room}. A larger PVC is required"


def clone(source: Path, target: Path, room: int) -> None:
    """Copy a disk, sharing its blocks where the file system can, into a disk of at least its size.

    Raises:
        TransferFailed: the source is gone, or the host's disk is full.
    """
    command: proc.Argv = ["cp", "--sparse=always", "--reflink=auto", source, target]
    done = proc.run(command, timeout=COPY_SECONDS, check=False)
    if done.returncode != 0:
        raise TransferFailed(f"could not copy the source disk: {done.stderr.strip()}")
    grow(target, room)


def bytes_used(path: Path) -> int:
    """Return how many bytes of a sparse file are on disk, 0 when there is no such file."""
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0
