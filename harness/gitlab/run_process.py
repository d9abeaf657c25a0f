"""The process of a job's run: whether it still goes on, and how it is ended.

A cancelled job's after_script begins while the run still tears down: the runner signals and does not wait. So the run
first gets its time; whatever is removed beside it is safe, since both work by label.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from harness.record import read
from harness.until import Deadline, NotYet, TimedOut, until

STARTS = ("run-start", "rerun-start")
LOOK_SECONDS = 0.5  # at a process of this host
FORCED_SECONDS = 10.0  # for a process that has got a second signal, which ends it at once


def process_of(run_dir: Path) -> int | None:
    """Return the process that the run's events are of; None when it has ended, or never was.

    Its command line names the run: the number may have gone to another process since.
    """
    started = [event for event in read(run_dir) if event["event"] in STARTS]
    if not started:
        return None
    pid = int(started[-1]["pid"])
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return None
    return pid if run_dir.name.encode() in words and state not in "ZX" else None


def wait_for_end(run_dir: Path, *, seconds: float) -> bool:
    """Give a run time to end by itself, then tell it to stop at once; return whether it ended by itself."""
    if _ended(run_dir, seconds):
        return True
    pid = process_of(run_dir)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        _ended(run_dir, FORCED_SECONDS)
    return False


def _ended(run_dir: Path, seconds: float) -> bool:
    def gone() -> bool | NotYet:
        pid = process_of(run_dir)
        return True if pid is None else NotYet(f"process {pid} is still running")

    with suppress(TimedOut):
        what = f"run {run_dir.name} to end"
        return until(gone, deadline=Deadline.after(seconds), what=what, interval=LOOK_SECONDS)
    return False
