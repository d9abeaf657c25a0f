"""Transfers: a whole disk or none, two at once, stoppable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.embedded.cdi.download import Cancel, ChecksumMismatch, ScratchRequired, TransferFailed
from harness.embedded.cdi.transfers import Blank, Transfer, TransferResult, Transfers, Work


@dataclass
class Scripted(Work):
    """Writes half a disk, then does as it is told."""

    end: Callable[[Cancel], None]
    half: threading.Event = field(default_factory=threading.Event)

    def make(self, target: Path, scratch: Path, cancel: Cancel, on_progress: Callable[[float], None]) -> None:
        target.write_bytes(b"half")
        on_progress(0.5)
        self.half.set()
        self.end(cancel)


def failing(error: Exception) -> Callable[[Cancel], None]:
    def end(_: Cancel) -> None:
        raise error

    return end


def transfer(tmp_path: Path, work: Scripted | Blank) -> Transfer:
    return Transfer(work, tmp_path / "pvc-1.raw", tmp_path / "scratch" / "1")


def test_a_finished_disk_takes_its_place_and_scratch_goes(tmp_path: Path) -> None:
    done = transfer(tmp_path, Blank(4096))
    done.run()
    assert done.outcome == TransferResult()
    assert done.target.stat().st_size == 4096
    assert not done.scratch.exists()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TransferFailed("no route"), TransferResult("no route")),
        (ChecksumMismatch("wrong"), TransferResult("wrong", fatal=True)),
        (ScratchRequired(), TransferResult(scratch=True)),
        (
            OSError(28, "No space left on device"),
            TransferResult("Unable to process data: [Errno 28] No space left on device"),
        ),
        (RuntimeError("bug"), TransferResult("Unable to process data: RuntimeError: bug")),
    ],
)
def test_a_failure_leaves_the_old_disk_and_no_scratch(
    tmp_path: Path, error: Exception, outcome: TransferResult
) -> None:
    failed = transfer(tmp_path, Scripted(failing(error)))
    failed.target.write_bytes(b"old")
    failed.run()
    assert failed.outcome == outcome
    assert failed.target.read_bytes() == b"old"
    assert not failed.scratch.exists()


def test_a_stopped_transfer_makes_no_disk(tmp_path: Path) -> None:
    stopped = transfer(tmp_path, Scripted(lambda cancel: cancel.set()))
    stopped.run()
    assert stopped.outcome is not None
    assert stopped.outcome.cancelled
    assert not stopped.target.exists()


def test_no_more_than_two_work_at_once(tmp_path: Path) -> None:
    release = threading.Event()
    transfers, ended = Transfers(), threading.Semaphore(0)
    running = [transfer(tmp_path / str(n), Scripted(lambda _: assert_released(release))) for n in range(3)]
    for folder in (r.target.parent for r in running):
        folder.mkdir()

    assert [transfers.admit(str(n), running[n]) for n in range(3)] == [True, True, False]
    for admitted in running[:2]:
        transfers.start(admitted, ended.release)
    assert all(r.work.half.wait(5) for r in running[:2] if isinstance(r.work, Scripted))
    assert [r.percent() for r in running] == [50.0, 50.0, None]
    release.set()
    assert ended.acquire(timeout=5)
    assert ended.acquire(timeout=5)
    assert transfers.admit("2", running[2])


def assert_released(release: threading.Event) -> None:
    assert release.wait(5)
