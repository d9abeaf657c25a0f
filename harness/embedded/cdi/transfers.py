"""Transfers under way: at most two threads that download, convert or copy, each stoppable, each leaving no scratch."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.embedded.cdi.cancel import Cancel, Cancelled, ChecksumMismatch, ScratchRequired, TransferFailed
from harness.embedded.cdi.importer_messages import UNPROCESSED
from harness.embedded.cdi.work import Work
from harness.errors import VmatrixError

log = logging.getLogger(__name__)
AT_ONCE = 2


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
