"""A container engine for all tests of this folder: the one that runs, or one of our own that is gone at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kind import engine


@pytest.fixture(scope="session")
def kind_engine() -> Iterator[None]:
    """Have commands find an engine."""
    with engine.running(engine.FOLDER) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield
