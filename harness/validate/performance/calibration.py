"""Calibration beside measurements: how long machines take for fixed work.

Machines do fixed work just before and just after each measurement. A figure that is twice as large on a host that is
twice as slow is not a slower cluster. Machines are calibrated one after the other: they may share a host, and would
slow each other down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any, TypeVar

from harness.spec.models import Timeouts
from harness.validate.hosts import MACHINE, run_on_each
from harness.validate.performance.figures import KINDS, Figure

T = TypeVar("T")
CALIBRATION = MACHINE / "calibration.py"
ROUNDS = 3  # of each work, of which the median counts
DISK = "/var/lib/etcd"  # on its file system, or that of its nearest parent
WORKS = ("cpu", "disk", "network")


@dataclass(frozen=True)
class Calibration:
    """Seconds that each machine took for each of WORKS, by machine; the means of two times around a measurement."""

    machines: Mapping[str, Mapping[str, float]]

    def of(self, name: str, where: str, value: float, machines: Iterable[str]) -> Figure:
        """Return a figure with the calibration of its machines beside it.

        Args:
            machines: those whose speed it depends on.
        """
        work = KINDS[name].work
        took = [self.machines[machine][work] for machine in machines if machine in self.machines] if work else []
        return Figure(name, where, value, mean(took) if took else 0.0)

    def figures(self) -> tuple[Figure, ...]:
        """Return the calibration as figures of its own: a machine that is slower than usual is worth a word."""
        return tuple(
            Figure(f"machine_{work}", machine, seconds)
            for machine, took in self.machines.items()
            for work, seconds in took.items()
        )


def calibrate(hosts: Mapping[str, Any], timeouts: Timeouts) -> Calibration:
    """Let every machine do the fixed work, one after the other.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    arguments = {"rounds": ROUNDS, "folder": DISK}
    figures: dict[str, Mapping[str, float]] = {}
    for name, host in hosts.items():
        figures |= run_on_each({name: host}, CALIBRATION, _read, timeouts, given={name: arguments})
    return Calibration(figures)


def beside(calibrated: Callable[[], Calibration], measure: Callable[[], T]) -> tuple[T, Calibration]:
    """Measure between two calibrations; return what was measured, and their means."""
    before = calibrated()
    measured = measure()
    after = calibrated()
    return measured, Calibration(
        {
            name: {work: mean((took[work], after.machines[name][work])) for work in WORKS}
            for name, took in before.machines.items()
        }
    )


def _read(raw: Mapping[str, Any]) -> dict[str, float]:
    return {work: float(raw[work]) for work in WORKS}
