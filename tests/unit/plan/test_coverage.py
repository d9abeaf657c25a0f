"""COVERAGE.md names every cell, every value and every reason."""

from __future__ import annotations

from pathlib import Path

from harness.plan.coverage import FILE as COVERAGE
from harness.plan.lock import load_lock
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from tests.unit.plan.planned import project_matrix as matrix

__all__ = ["matrix"]


def test_coverage_names_every_cell_value_and_reason(matrix: Path) -> None:
    text = (matrix / COVERAGE).read_text()
    spec, lock = load_spec(matrix), load_lock(matrix)
    for infra in spec.infras:
        for tier in spec.tiers:
            assert all(f"`{cell.id}`" in text for cell in tier_cells(spec, tier, infra, lock))
    assert "| os | debian-12 |" in text
    assert "os cloud: needs internet, which the embedded infrastructure does not offer" in text
    assert "no cell can have" in text
    assert "is left out: os cloud needs internet" in text
