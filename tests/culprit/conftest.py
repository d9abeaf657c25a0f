"""An infra cluster for the nights, and the project that they are of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.culprit.project import NightProject

INFRA = "culprit"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[NightProject]:
    """A project without a fault, whose infra cluster is up."""
    made = NightProject.made(tmp_path / "project", INFRA)
    try:
        assert made.vmatrix("infra", "up", "--name", INFRA) == 0
        yield made
    finally:
        assert made.vmatrix("infra", "down", "--name", INFRA) == 0
