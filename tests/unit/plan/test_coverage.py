"""COVERAGE.md names every cell, every value and every reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.plan.coverage import FILE as COVERAGE
from harness.plan.lock import load_lock, tier_cells
from harness.spec import load_spec
from tests.unit.plan.small import lay_matrix


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small matrix as the project's, with its files written."""
    monkeypatch.setenv("VMATRIX_PROJECT", str(tmp_path))
    directory = lay_matrix(tmp_path)
    done("--write")
    return directory


def call(*options: str) -> Result:
    return CliRunner().invoke(app, ["plan", *options])


def done(*options: str) -> str:
    result = call(*options)
    assert result.exit_code == 0, result.exception
    return result.stdout


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
