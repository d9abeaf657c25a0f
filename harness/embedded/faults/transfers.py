"""Faults of disks: a transfer that fails, stops or crawls, a pod that is never made, a claim without a volume."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.embedded.cdi.download import Cancel, ChecksumMismatch, TransferFailed
from harness.embedded.cdi.transfers import ImportHttp, LookHttp, Work
from harness.embedded.faults.catalogue import Faults
from harness.kube.client import Json

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
