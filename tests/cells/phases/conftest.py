"""What the checks around phases share: the guest as it was before the phase, and as it is after it."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate.inspection import Inspection
from harness.validate.phases.leftovers import gone_by
from harness.validate.phases.observation import AFTER, Observation, observe
from harness.validate.phases.witness import PhaseRecord, Witness


@pytest.fixture(scope="session")
def record(inspection: Inspection, witness: Witness, phase: int) -> PhaseRecord:
    """What was seen of the phase; asked for after the phase has been applied."""
    return witness.record(phase)


@pytest.fixture(scope="session")
def before(record: PhaseRecord) -> Observation:
    """The guest when the phase began; the trouble that kept it from being seen is raised."""
    record.need(record.before)
    assert record.before is not None, "nobody looked at the guest before the phase"
    return record.before


@pytest.fixture(scope="session")
def after(inspection: Inspection) -> Observation:
    """The guest after the phase, once it has settled."""
    return observe(inspection, AFTER)


@pytest.fixture(scope="session")
def gone(cell: Cell, phase: int, witness: Witness) -> dict[str, str]:
    """The addresses of the machines that are no longer part of the cluster, by name."""
    return {name: witness.addresses[name] for name in gone_by(cell, phase)}
