"""What the checks around phases share: the guest before and after the phase."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate.inspection import Inspection
from harness.validate.phases.leftovers import gone_by
from harness.validate.phases.monitor import PhaseMonitor, PhaseRecord
from harness.validate.phases.observation import AFTER, Observation, observe


@pytest.fixture(scope="session")
def record(inspection: Inspection, monitor: PhaseMonitor, phase: int) -> PhaseRecord:
    """What was seen of the phase, once it has been applied."""
    return monitor.record(phase)


@pytest.fixture(scope="session")
def before(record: PhaseRecord) -> Observation:
    """The guest when the phase began. Raises the error that kept it from being seen."""
    return record.guest_before()


@pytest.fixture(scope="session")
def after(inspection: Inspection) -> Observation:
    """The guest after the phase, once it has settled."""
    return observe(inspection, AFTER)


@pytest.fixture(scope="session")
def gone(cell: Cell, phase: int, monitor: PhaseMonitor) -> dict[str, str]:
    """The addresses of the machines that are no longer part of the cluster, by name."""
    return {name: monitor.addresses[name] for name in gone_by(cell, phase)}
