"""The contract tests' embedded instance is of one session, and those of dead sessions are found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.infra.host.layout import instances_dir
from tests.contract import reach


def test_instances_of_dead_sessions_alone_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    dead = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")) + 1  # no process has it
    for name in (f"contract-{os.getpid()}", f"contract-{dead}", "contract-mine", "default", f"pytest-{dead}"):
        (instances_dir("embedded") / name).mkdir(parents=True)
    assert reach.orphans() == [f"contract-{dead}"]
