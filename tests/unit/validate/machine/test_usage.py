"""What programs use: memory and CPU time of a process that is there."""

from __future__ import annotations

import json
import os

import pytest

from harness.validate.machine import usage as program


def test_a_process_has_memory_and_time() -> None:
    assert program.memory(os.getpid()) > 1000
    assert (program.seconds(os.getpid()) or 0.0) > 0


def test_a_process_that_has_ended_has_neither() -> None:
    assert program.memory(0) == 0
    assert program.seconds(0) is None


def test_programs_are_told_by_their_names(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "processes", lambda *_: [{"pid": os.getpid(), "name": "etcd"}] * 2)
    program.main([json.dumps({"seconds": 0.01, "names": []})])
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"etcd"}
    assert found["etcd"]["kib"] > 2000
