"""A run that still goes on at its job's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.events import Recorder
from harness.gitlab.job_end import process_of, wait_for_end

RUN = "abc123"


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[Path, subprocess.Popen[bytes]]:
    """Return a run's directory and its process, which ends at the first signal only."""
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    # Popen returns while the kernel still exchanges the program: its command line can be empty until the program speaks
    argv = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", RUN]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    process.stdout.close()
    Recorder(run_dir).write("run-start", pid=process.pid, run=RUN, cells=[])
    return run_dir, process


def test_a_run_that_still_goes_on_gets_its_time_and_is_then_told_to_stop(
    stubborn: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    run_dir, process = stubborn
    assert process_of(run_dir) == process.pid
    assert wait_for_end(run_dir, seconds=0.3) is False
    assert process.wait(timeout=60) == -signal.SIGTERM  # long before it ends by itself
    assert process_of(run_dir) is None
    assert wait_for_end(run_dir, seconds=5) is True


def test_another_process_with_the_runs_number_is_left_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    assert process_of(run_dir) is None
    Recorder(run_dir).write("run-start", pid=os.getppid(), run=RUN, cells=[])
    assert process_of(run_dir) is None
