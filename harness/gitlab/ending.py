"""The end of a job, whatever its script came to: what a run left is collected and taken away, any number of times.

A cancelled job's after_script begins while the run still tears down (the runner signals and does not wait), so the run
gets its time first; what is left after that is taken away beside it, which is safe: both work by label.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.cell import diagnose
from harness.cell.found import CellSelector, Found, find
from harness.cell.place import place_of
from harness.cell.teardown import reap
from harness.kube.client import Cluster
from harness.record import read
from harness.rundir import RunDir
from harness.until import Deadline, NotYet, TimedOut, until

STARTS = ("run-start", "rerun-start")
INTERVAL = 0.5
FORCED_SECONDS = 10.0


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
        return True if pid is None else NotYet(f"process {pid} is still at it")

    try:
        until(gone, deadline=Deadline.after(seconds), what=f"run {run_dir.name} has ended", interval=INTERVAL)
    except TimedOut:
        return False
    return True


def take_away(
    cluster: Cluster,
    run_dir: Path,
    *,
    shared: str | None,
    collect_seconds: float,
    seconds: float,
    on_gone: Callable[[Found], None],
) -> list[Found]:
    """Collect and take away what is left of a run in the infra cluster, and return it.

    Args:
        shared: the namespace that cells share; None where each has one of its own.
        collect_seconds, seconds: for each cell's diagnostics; from its first delete until it is gone.

    Raises:
        Leaked: something could not be removed.
    """
    selection = CellSelector(run=run_dir.name, namespace=shared)
    for left in find(cluster, selection):
        place = place_of(left.run, left.cell, left.attempt, shared=shared)
        files = RunDir(run_dir).attempt(left.cell, left.attempt)
        diagnose.collect(cluster, place, files, None, seconds=collect_seconds)
    return reap(cluster, selection, seconds=seconds, on_gone=on_gone)
