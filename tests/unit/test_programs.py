"""Programs that are loaded already end with all that they have started, however a test ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.processes import wait_for_end
from tests.unit.programs import run_loaded

STARTS = """
import pathlib, subprocess

def test_it_goes_on():
    with subprocess.Popen(["sleep", "600"]) as program:
        pathlib.Path("pid").write_text(str(program.pid))
"""


def test_what_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "test_long.py").write_text(STARTS, encoding="utf-8")
    for seconds in (2, 8, 32, 128):  # the more, the busier the host is: it has to begin
        with pytest.raises(subprocess.TimeoutExpired):
            run_loaded([sys.executable, "-m", "pytest", "test_long.py"], cwd=tmp_path, timeout=seconds)
        if pid.exists() and pid.read_text(encoding="utf-8"):
            break
    wait_for_end(int(pid.read_text(encoding="utf-8")))
