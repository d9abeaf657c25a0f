"""The fixed work that machines do: here, on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.validate.machine import calibration as program


def test_each_work_takes_some_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.main([json.dumps({"rounds": 1, "folder": str(tmp_path / "not" / "there")})])
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"cpu", "disk", "network"}
    assert all(seconds > 0 for seconds in found.values())
    assert not list(tmp_path.iterdir())


def test_the_median_counts() -> None:
    left = [3.0, 1.0, 9.0]
    assert program.middle(lambda: left.pop(0), 3) == 3.0
