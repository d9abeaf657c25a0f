"""Calibrations around a measurement, and the figures that they stand beside."""

from __future__ import annotations

import pytest

from harness.validate.performance.calibration import Calibration, beside
from harness.validate.performance.figures import Figure


def of(cpu: float, **worker: float) -> Calibration:
    took = {"cpu": cpu, "disk": 0.01, "network": 0.1}
    return Calibration({"cp-0": took, "w-0": took | worker})


def test_the_mean_of_before_and_after_counts() -> None:
    left = [of(0.1), of(0.3, disk=0.03)]
    measured, found = beside(lambda: left.pop(0), lambda: "measured")
    assert measured == "measured"
    assert found.machines["cp-0"] == pytest.approx({"cpu": 0.2, "disk": 0.01, "network": 0.1})
    assert found.machines["w-0"]["disk"] == pytest.approx(0.02)


def test_a_figure_gets_the_work_of_its_kind_on_its_machines() -> None:
    found = Calibration({**of(0.2).machines, "w-0": {"cpu": 0.4, "disk": 0.01, "network": 0.1}})
    assert found.of("pod_start_p50", "w-0", 1.5, ["w-0"]) == Figure("pod_start_p50", "w-0", 1.5, 0.4)
    assert found.of("pod_round_trip", "a", 1.0, ["cp-0", "w-0"]).calibration == pytest.approx(0.3)
    assert found.of("etcd_fsync_p99", "cp-0", 1.0, ["cp-0"]).calibration == 0.01
    assert found.of("idle_memory", "w-0", 300.0, ["w-0"]).calibration == 0.0


def test_the_machines_are_figures_themselves() -> None:
    assert Figure("machine_disk", "w-0", 0.01) in of(0.2).figures()
    assert len(of(0.2).figures()) == 6
