"""What the reports' tests share: results to be written line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.report.written import Written


@pytest.fixture
def run(tmp_path: Path) -> Written:
    """A run of which nothing is written yet."""
    return Written(tmp_path)
