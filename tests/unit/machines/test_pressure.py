"""How busy a host is, is read from what its kernel says, and what no cluster stands is told apart from what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InfraError
from harness.machines import pressure
from harness.machines.pressure import Pressure, of_text, overload, this_host
from harness.model import Machine, PlannedMachine
from harness.proc import Completed

LOAD, BEFORE, AFTER = "1.50 40.20 9.00 3/500 77", "cpu  100 0 100 800 0 0 0 0 0 0", "cpu  150 0 120 870 0 0 0 60 0 0"


def stalls(*, cpu: float = 0.0, io: float = 0.0, memory: float = 0.0) -> list[str]:
    """Return the lines of /proc/pressure, each with its name before it."""
    line = "{} {} avg10=1.00 avg60={:.2f} avg300=0.10 total=5".format
    return [
        line(kind, who, of) for kind, of in (("cpu", cpu), ("io", io), ("memory", memory)) for who in ("some", "full")
    ]


def text(*, load: str = LOAD, more: list[str] | None = None, times: tuple[str, ...] = ()) -> str:
    """Return what a machine prints."""
    return "\n".join(["2", load, *(stalls() if more is None else more), *times])


def test_what_a_machine_prints_is_read() -> None:
    found = of_text("w-0", text(more=stalls(cpu=99.5, io=7.0), times=(BEFORE, AFTER)))
    assert found is not None
    assert (found.processors, found.load, found.stolen) == (2, 40.2, pytest.approx(30.0))
    assert str(found) == "w-0: load 40 on 2 processors, cpu some 100 %, io full 7 %, memory full 0 %, stolen 30 %"


@pytest.mark.parametrize("said", ["", "2", "no\n1 2 3", "2\nload"])
def test_what_is_something_else_says_nothing(said: str) -> None:
    assert of_text("w-0", said) is None


@pytest.mark.parametrize("times", [(), (BEFORE,), (BEFORE, BEFORE), ("cpu  1 2 3", "cpu  2 3 4")])
def test_stolen_time_that_cannot_be_measured_is_none(times: tuple[str, ...]) -> None:
    found = of_text("w-0", text(times=times))
    assert found is not None
    assert found.stolen is None


@pytest.mark.parametrize(
    ("said", "high"),
    [
        (text(load="39.0 38.0 1.0 1/1 1"), False),
        (text(load="40.0 1.0 1.0 1/1 1"), True),
        (text(load="1.0 96.0 140.0 1/1 1"), True),  # the minutes before it count, too
        (text(load="3.0 2.0 140.0 1/1 1"), True),
        (text(load="1 1 1", more=stalls(cpu=100.0)), False),  # any deployment keeps processors busy
        (text(load="1 1 1", more=stalls(io=49.0, memory=19.0)), False),
        (text(load="1 1 1", more=stalls(io=50.0)), True),
        (text(load="1 1 1", more=stalls(memory=20.0)), True),
        (text(load="1 1 1", more=[]), False),  # a kernel without PSI
        (text(load="1 1 1", times=(BEFORE, AFTER)), True),
        (text(load="1 1 1", times=(BEFORE, "cpu  150 0 120 930 0 0 0 10 0 0")), False),
    ],
)
def test_what_a_cluster_does_not_stand(said: str, high: bool) -> None:
    found = of_text("w-0", said)
    assert found is not None
    assert found.too_high is high


def test_this_host_is_read_from_its_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "PROC", tmp_path)
    assert this_host() is None
    (tmp_path / "loadavg").write_text("9.5 8.0 1.0 1/1 1\n", encoding="ascii")
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "io").write_text("full avg10=0.00 avg60=12.00 avg300=0.00 total=0\n", encoding="ascii")
    found = this_host()
    assert found is not None
    assert (found.load, dict(found.stalled)) == (9.5, {"io full": 12.0})


MACHINES = tuple(
    Machine(PlannedMachine(name, ("node",), 1, 512, 10, "i"), "192.0.2.1", 22, "root")
    for name in ("cp-0", "w-0", "w-1")
)
IDLE = Pressure("this host", 2, 1.0, {})
BUSY = Pressure("this host", 2, 96.0, {})


def test_machines_are_asked_only_where_this_host_does_not_explain_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "this_host", lambda: BUSY)
    monkeypatch.setattr(pressure, "run_on", lambda *_, **__: pytest.fail("a machine was asked"))
    assert overload(MACHINES, Path("id")) == "this host: load 96 on 2 processors"


def test_a_machine_that_does_not_answer_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(machine: Machine, *_: object, **__: object) -> Completed:
        if machine.name == "cp-0":
            raise InfraError("cannot log in")
        stolen = text(load="1 1 1", times=(BEFORE, AFTER)) if machine.name == "w-0" else "Permission denied"
        return Completed(("ssh",), 0 if machine.name == "w-0" else 255, stolen, "", 1.0)

    monkeypatch.setattr(pressure, "this_host", lambda: IDLE)
    monkeypatch.setattr(pressure, "run_on", run)
    assert overload(MACHINES, Path("id")).startswith("w-0: load 1 on 2 processors")
    assert overload((), Path("id")) == ""
