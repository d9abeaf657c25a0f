"""The list of the operator's controllers."""

from __future__ import annotations

import pytest

from harness.errors import BadInput
from harness.operator.registry import NAMES, PARTS, chosen


def test_no_names_are_all_of_them() -> None:
    assert chosen() == PARTS


def test_names_choose_in_the_order_of_the_list() -> None:
    assert [part.name for part in chosen(["machine", "clusterdeployment"])] == ["clusterdeployment", "machine"]


def test_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadInput, match="no controller is named snapshots") as refused:
        chosen(["machine", "snapshots"])
    assert all(name in refused.value.hint for name in NAMES)
