"""The small matrix planned: with its lock, by calls; and as the project's, by the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.plan.build import TierPlan, lock_text
from harness.plan.lock import FILE, load_lock
from harness.spec import load_spec
from tests.unit.plan.small import lay_matrix, plan_all


@pytest.fixture
def locked_matrix(tmp_path: Path) -> Path:
    """The small matrix with its lock."""
    directory = lay_matrix(tmp_path)
    write(directory)
    return directory


@pytest.fixture
def project_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small matrix as the project's, with its files written."""
    monkeypatch.setenv("VMATRIX_PROJECT", str(tmp_path))
    directory = lay_matrix(tmp_path)
    done("--write")
    return directory


def write(matrix: Path, *, repack: bool = False) -> tuple[TierPlan, ...]:
    spec = load_spec(matrix)
    plans = plan_all(spec, load_lock(matrix), repack=repack)
    (matrix / FILE).write_text(lock_text(spec, plans))
    return plans


def edit(file: Path, old: str, new: str) -> int:
    """Replace the first occurrence and return its line."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def call(*options: str) -> Result:
    return CliRunner().invoke(app, ["plan", *options])


def done(*options: str) -> str:
    result = call(*options)
    assert result.exit_code == 0, result.exception
    return result.stdout
