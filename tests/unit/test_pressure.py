"""How busy a host is, is read from what its kernel says, and what no cluster stands is told apart from what it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import pressure
from harness.pressure import of_text, this_host

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
    assert (found.processors, found.load) == (2, 40.2)
    assert found.stolen == pytest.approx(30.0)
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
    monkeypatch.setattr(os, "getloadavg", lambda: (9.5, 8.0, 11.0))
    assert dict(this_host().stalled) == {}
    (tmp_path / "io").write_text("full avg10=0.00 avg60=12.00 avg300=0.00 total=0\n", encoding="ascii")
    found = this_host()
    assert (found.loads, found.load, dict(found.stalled)) == ((9.5, 8.0, 11.0), 11.0, {"io full": 12.0})
