"""Transfers: import over HTTP, make a blank disk, clone another; at most two at once, each cancellable."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.embedded.cdi import download
from harness.embedded.cdi.download import (
    UNPROCESSED,
    Cancel,
    Cancelled,
    ChecksumMismatch,
    Request,
    ScratchRequired,
    TransferFailed,
    fetch,
    look,
)
from harness.embedded.faults import Faults
from harness.errors import VmatrixError
from harness.kube.client import Json

DOWNLOAD_SHARE = 0.5  # of the progress; the rest is the conversion
log = logging.getLogger(__name__)
AT_ONCE = 2


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
        image = download.unpacked(body, self.claim, cancel)
        on_progress(DOWNLOAD_SHARE)
        rest = 1.0 - DOWNLOAD_SHARE
        download.convert(image, target, self.claim, cancel, lambda share: on_progress(DOWNLOAD_SHARE + share * rest))
        download.grow(target, self.room)


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
        download.clone(self.source, target, self.room)

    def progress(self, target: Path) -> float | None:
        """Return how much of the source's blocks is there."""
        whole = download.bytes_used(self.source)
        return min(1.0, download.bytes_used(target) / whole) if whole else None


@dataclass(frozen=True)
class TransferResult:
    """How a transfer ended: well, for want of scratch space, with a failure worth a retry, or fatally.

    message: the termination message of a pod that failed.
    """

    message: str = ""
    fatal: bool = False
    scratch: bool = False
    cancelled: bool = False


@dataclass
class Transfer:
    """One attempt; `outcome` is set when it has ended."""

    work: Work
    target: Path
    scratch: Path
    cancel: Cancel = field(default_factory=Cancel)
    share: float | None = None
    outcome: TransferResult | None = None

    @property
    def disk(self) -> Path:
        """Return the unfinished disk."""
        return self.scratch / "disk.img"

    def percent(self) -> float | None:
        """Return how far it is, in percent; None when nobody knows."""
        share = self.share if self.share is not None else self.work.progress(self.disk)
        return None if share is None else 100.0 * share

    def run(self) -> None:
        """Work to the end; never raises."""
        try:
            self.outcome = self._attempt()
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _attempt(self) -> TransferResult:
        def tell(share: float) -> None:
            self.share = share

        try:
            self.scratch.mkdir(parents=True)
            self.work.make(self.disk, self.scratch, self.cancel, tell)
            self.cancel.check()
            self.disk.replace(self.target)
        except Cancelled:
            return TransferResult("cancelled", cancelled=True)
        except ScratchRequired:
            return TransferResult(scratch=True)
        except ChecksumMismatch as failure:
            return TransferResult(str(failure), fatal=True)
        except TransferFailed as failure:
            return TransferResult(str(failure))
        except (OSError, VmatrixError) as error:
            return TransferResult(f"{UNPROCESSED}: {error}")
        except Exception as error:
            log.exception("transfer into %s broke", self.target)
            return TransferResult(f"{UNPROCESSED}: {type(error).__name__}: {error}")
        return TransferResult()


class Transfers:
    """The transfers of this process, by the uid of the pod that stands for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, Transfer] = {}

    def get(self, pod_uid: str) -> Transfer | None:
        """Return a pod's transfer, running or ended."""
        with self._lock:
            return self._of.get(pod_uid)

    def admit(self, pod_uid: str, transfer: Transfer) -> bool:
        """Take a place for a pod's transfer; False when all places are taken."""
        with self._lock:
            if sum(t.outcome is None for t in self._of.values()) >= AT_ONCE:
                return False
            self._of[pod_uid] = transfer
            return True

    def start(self, transfer: Transfer, on_end: Callable[[], None]) -> None:
        """Run an admitted transfer on a thread; `on_end` is called there when it has ended."""

        def work() -> None:
            try:
                transfer.run()
            finally:
                on_end()

        threading.Thread(target=work, name=f"transfer-{transfer.target.stem[:16]}", daemon=True).start()

    def forget(self, pod_uid: str) -> None:
        """Drop an ended transfer."""
        with self._lock:
            self._of.pop(pod_uid, None)

    def cancel_all(self) -> None:
        """Stop everything, at the end of the process."""
        with self._lock:
            running = list(self._of.values())
        for transfer in running:
            transfer.cancel.set()


TICK_SECONDS = 0.1  # the resolution of a transfer that crawls


def _tick() -> None:
    threading.Event().wait(TICK_SECONDS)


@dataclass(frozen=True)
class Failing(Work):
    """Ends with a message, at once."""

    message: str
    fatal: bool

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Fail."""
        raise (ChecksumMismatch if self.fatal else TransferFailed)(self.message)


@dataclass(frozen=True)
class Stalling(Work):
    """Comes as far as a share (0 to 1) and no further, until it is cancelled."""

    at: float

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Stop on the way."""
        on_progress(self.at)
        while True:
            cancel.check()
            _tick()


@dataclass(frozen=True)
class Crawling(Work):
    """Takes more seconds than the work itself, and tells its progress all the while."""

    work: Work
    extra: float

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        """Crawl, then do the work."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self.extra:
            cancel.check()
            on_progress(min(0.95, passed / self.extra))
            _tick()
        self.work.make(target, scratch, cancel, lambda _: None)


def work(faults: Faults, claim: Json, real: Work, restarts: int) -> Work:
    """Return what a claim's transfer does after so many `restarts` of its container: its work, or what befalls it.

    An import fails in its first pod, which only looks at the image; it stalls and crawls in its second.
    """
    failing = faults.of(claim, "import-fails") if not isinstance(real, ImportHttp) else None
    if failing is not None and (not failing["times"] or restarts < int(failing["times"])):
        return Failing(str(failing["message"]), bool(failing["fatal"]))
    if isinstance(real, LookHttp):
        return real
    stalling = faults.of(claim, "import-stalls")
    if stalling is not None:
        return Stalling(float(stalling["at"]) / 100.0)
    slow = faults.of(claim, "import-slow")
    return real if slow is None else Crawling(real, float(slow["extra"]))


def pause(faults: Faults, claim: Json | None) -> float | None:
    """Return how long a container that ended waits when its failure was asked for; None for the kubelet's pauses."""
    asked = faults.of(claim, "import-fails") if claim is not None else None
    return None if asked is None else float(asked["every"])


def without_pod(faults: Faults, claim: Json, cloned: str | None) -> tuple[str, str] | None:
    """Return why no pod is made for a claim, as an event's reason and message; None when one is."""
    asked: Mapping[str, Any] | None = faults.of(claim, "clone-blocked") if cloned else None
    if asked is not None:
        return "CloneSourceInUse", str(asked["message"]).replace("{source}", str(cloned))
    asked = faults.of(claim, "no-importer")
    return None if asked is None else ("ErrExceededQuota", str(asked["message"]))


def waiting(faults: Faults, claim: Json) -> Mapping[str, Any] | None:
    """Return why a claim's pod has no container, as `reason` and `message`; None when it has one."""
    return faults.of(claim, "importer-waits")


def without_volume(faults: Faults, claim: Json) -> str:
    """Return why a claim gets no volume, "" when it gets one."""
    asked = faults.of(claim, "claim-pending")
    return "" if asked is None else str(asked["message"])
