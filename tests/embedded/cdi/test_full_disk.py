"""A host disk that is too small for the transfer: told in the importer's words, nothing left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import proc
from harness.embedded.cdi.download import Request
from harness.embedded.cdi.transfers import Clone, ImportHttp, Transfer, Work
from tests.embedded.cdi.conftest import Folder

MIB = 1024**2


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 12 MiB."""
    mount = tmp_path / "small"
    mount.mkdir()
    proc.run(["mount", "-t", "tmpfs", "-o", "size=12M", "tmpfs", mount], timeout=10)
    yield mount
    proc.run(["umount", "--lazy", mount], timeout=10)


def ended(work: Work, small: Path) -> Transfer:
    transfer = Transfer(work, small / "target.raw", small / "scratch")
    worker = threading.Thread(target=transfer.run)
    worker.start()
    worker.join(30)
    assert transfer.outcome is not None
    return transfer


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (8 * MIB, "Unable to convert source data to target format: Conversion to Raw failed: "),
        (
            20 * MIB,
            "Unable to transfer source data to scratch space: unable to write to file: write /scratch/tmpimage: ",
        ),
    ],
    ids=["conversion", "download"],
)
def test_an_import_into_a_full_disk_says_so(small: Path, folder: Folder, size: int, said: str) -> None:
    (folder.path / "image").write_bytes(os.urandom(size))

    transfer = ended(ImportHttp(Request(folder.url("image")), 32 * MIB, 34 * MIB), small)

    assert transfer.outcome is not None
    assert transfer.outcome.message.startswith(f"Unable to process data: {said}")
    assert "no space left on device" in transfer.outcome.message.lower()
    assert ("no space left on device" in transfer.outcome.message) is (
        "scratch" in said
    )  # qemu-img begins with a capital
    assert not transfer.outcome.fatal
    assert list(small.iterdir()) == []


def test_a_clone_into_a_full_disk_says_so(small: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.raw"
    source.write_bytes(os.urandom(20 * MIB))

    transfer = ended(Clone(source, 32 * MIB), small)

    assert transfer.outcome is not None
    assert "no space left on device" in transfer.outcome.message.lower()
    assert list(small.iterdir()) == []
