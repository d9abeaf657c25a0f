"""Machines are asked whether they were too busy for a cluster only where this host does not explain it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InfraError
from harness.machines import overload as asked
from harness.machines.overload import overload
from harness.model import Machine, PlannedMachine
from harness.pressure import Pressure
from harness.proc import Completed

MACHINES = tuple(
    Machine(PlannedMachine(name, ("node",), 1, 512, 10, "i"), "192.0.2.1", 22, "root")
    for name in ("cp-0", "w-0", "w-1")
)
# nproc, /proc/loadavg, and 30 % of the processors' time stolen between two readings of /proc/stat
STOLEN = "2\n1 1 1\ncpu  100 0 100 800 0 0 0 0 0 0\ncpu  150 0 120 870 0 0 0 60 0 0"
IDLE = Pressure("this host", 2, (1.0, 1.0, 1.0), {})
BUSY = Pressure("this host", 2, (96.0, 1.0, 1.0), {})


def test_machines_are_asked_only_where_this_host_does_not_explain_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "this_host", lambda: BUSY)
    monkeypatch.setattr(asked, "run_on", lambda *_, **__: pytest.fail("a machine was asked"))
    assert overload(MACHINES, Path("id")) == "this host: load 96 on 2 processors"


def test_a_machine_that_does_not_answer_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(machine: Machine, *_: object, **__: object) -> Completed:
        if machine.name == "cp-0":
            raise InfraError("cannot log in")
        stolen = STOLEN if machine.name == "w-0" else "Permission denied"
        return Completed(("ssh",), 0 if machine.name == "w-0" else 255, stolen, "", 1.0)

    monkeypatch.setattr(asked, "this_host", lambda: IDLE)
    monkeypatch.setattr(asked, "run_on", run)
    assert overload(MACHINES, Path("id")).startswith("w-0: load 1 on 2 processors")
    assert overload((), Path("id")) == ""
