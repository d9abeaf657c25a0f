"""The list of the operator's controllers."""

from __future__ import annotations

import pytest

from harness.errors import BadInput
from harness.operator.registry import ALL, NAMES, PARTS, WEBHOOKS, chosen


def test_no_names_are_all_of_them() -> None:
    assert chosen() == PARTS


def test_names_choose_in_the_order_of_the_list() -> None:
    assert [part.name for part in chosen(["machine", "clusterdeployment"])] == ["clusterdeployment", "machine"]


def test_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadInput, match="no controller is named snapshots") as refused:
        chosen(["machine", "snapshots"])
    assert all(name in refused.value.hint for name in NAMES)


def test_webhooks_are_served_beside_controllers_and_are_none() -> None:
    assert chosen([ALL, WEBHOOKS]) == chosen([WEBHOOKS]) == PARTS
    assert [part.name for part in chosen(["machine", WEBHOOKS])] == ["machine"]
