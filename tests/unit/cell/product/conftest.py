"""What tests of products share: a script that is a product, with folders of the test's own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.unit.cell.product.phases import Phased


@pytest.fixture
def phased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phased:
    """A product of one script, and a cell."""
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(sockets))
    return Phased(tmp_path)
