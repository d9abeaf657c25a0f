"""What holds for every unit test.

Hypothesis judges results, never times, which a busy host decides. The project is this checkout, in whatever folder a
test works.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from harness.paths import PROJECT, packaged_dir

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Name the project, for the commands that tests start, too."""
    os.environ[PROJECT] = str(packaged_dir())
