"""An infra cluster that runs pods, the operator in it, and git servers that its pods reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.embedded.conftest import running
from tests.embedded.deliveries_live.world import World


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """Return the world of all deliveries."""
    with TemporaryDirectory(prefix="deliveries-") as folder, running("-deliver", pods=True) as infra:
        made = World(infra, Path(folder))
        made.open()
        try:
            yield made
        finally:
            made.close()
