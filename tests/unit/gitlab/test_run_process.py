"""A run that still goes on at its job's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.gitlab.run_process import process_of, wait_for_end
from harness.record import Recorder

RUN = "abc123"


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[Path, subprocess.Popen[bytes]]:
    """Return a run's directory and its process, which ends at the first signal only."""
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", RUN])
    Recorder(run_dir).write("run-start", pid=process.pid, run=RUN, cells=[])
    return run_dir, process


def test_a_run_that_still_goes_on_gets_its_time_and_is_then_told_to_stop(
    stubborn: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    run_dir, process = stubborn
    assert process_of(run_dir) == process.pid
    began = time.monotonic()
    assert wait_for_end(run_dir, seconds=0.3) is False
    assert time.monotonic() - began < 5
    assert process.wait(timeout=5) == -signal.SIGTERM
    assert process_of(run_dir) is None
    assert wait_for_end(run_dir, seconds=5) is True


def test_another_process_with_the_runs_number_is_left_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    assert process_of(run_dir) is None
    Recorder(run_dir).write("run-start", pid=os.getppid(), run=RUN, cells=[])
    assert process_of(run_dir) is None
