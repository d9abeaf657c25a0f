"""What a guest must look like is read from its cell's variables."""

from __future__ import annotations

import pytest

from harness.errors import HarnessBug
from tests.unit.validate import guests


def test_a_variable_that_is_missing_is_named() -> None:
    with pytest.raises(HarnessBug, match="cluster_runc_version"):
        guests.expected(variables={k: v for k, v in guests.VARIABLES.items() if k != "cluster_runc_version"})
