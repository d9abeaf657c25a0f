"""What a transfer does: import over HTTP, make an empty disk, copy another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.embedded.cdi import images
from harness.embedded.cdi.cancel import Cancel, ScratchRequired
from harness.embedded.cdi.download import Request, fetch, look

DOWNLOAD_SHARE = 0.5  # of the progress; the rest is the conversion


class Work(ABC):
    """What a transfer does to make a disk."""

    @abstractmethod
    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Make the disk file at `target`, which does not exist yet; `scratch` is an empty folder for this attempt."""

    def progress(self, target: Path) -> float | None:
        """Return the share done (0 to 1) where the work does not report it itself; None when nobody knows."""
        return None


@dataclass(frozen=True)
class LookHttp(Work):
    """What an importer without scratch space does: see whether the image is there, and ask for some.

    It looks at the image's size as well, and goes on whatever it is (CDI v1.66.0: ProcessingPhaseValidatePreScratch
    compares errors that are never equal).
    """

    request: Request

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Make nothing; raise ScratchRequired when all is well so far."""
        look(self.request, cancel)
        raise ScratchRequired


@dataclass(frozen=True)
class ImportHttp(Work):
    """Downloads an image, verifies it, and turns it into a raw disk of `room` bytes, or of its own size.

    claim: bytes of the claim, which an importer takes for the room that there is.
    """

    request: Request
    room: int
    claim: int

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Download to scratch, then convert."""
        body = scratch / "download"
        with body.open("wb") as sink:
            fetch(self.request, sink, cancel, lambda share: on_progress(share * DOWNLOAD_SHARE))
        image = images.unpacked(body, self.claim, cancel)
        on_progress(DOWNLOAD_SHARE)
        rest = 1.0 - DOWNLOAD_SHARE
        images.convert(image, target, self.claim, cancel, lambda share: on_progress(DOWNLOAD_SHARE + share * rest))
        images.grow(target, self.room)


@dataclass(frozen=True)
class Blank(Work):
    """Makes an empty disk of `room` bytes."""

    room: int

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Make the sparse file."""
        with target.open("wb") as sparse:
            sparse.truncate(self.room)


@dataclass(frozen=True)
class Clone(Work):
    """Copies another volume's disk into one of `room` bytes."""

    source: Path
    room: int

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Copy, keeping holes."""
        images.clone(self.source, target, self.room)

    def progress(self, target: Path) -> float | None:
        """Return how much of the source's blocks is there."""
        whole = images.bytes_used(self.source)
        return min(1.0, images.bytes_used(target) / whole) if whole else None
