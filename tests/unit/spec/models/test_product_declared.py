"""Paths to one value in an object."""

from __future__ import annotations

from typing import Any

import pytest

from harness.spec.models.product_declared import steps, value_at

OBJECT: dict[str, Any] = {
    "status": {"history": [{"blame": "infra"}, {"blame": "product"}], "a.b": 1, "none": None, "zero": 0}
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("{.status.history[0].blame}", "infra"),
        (".status.history[-1].blame", "product"),
        ("{.status['a.b']}", 1),
        ("{.status.zero}", 0),
        ("{.status.history[2].blame}", None),
        ("{.status.history[-3]}", None),
        ("{.status.none.more}", None),
        ("{.status.history.blame}", None),
        ("{.spec.version}", None),
    ],
)
def test_a_path_leads_to_one_value_or_to_none(path: str, value: Any) -> None:
    assert value_at(OBJECT, path) == value


@pytest.mark.parametrize(
    "path", ["", "{}", "status", "{.status..a}", "{.items[*].name}", "{.a[?(@.b)]}", "{.a", "{.a} "]
)
def test_what_is_no_path_to_one_value_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"is not a path such as \{\.status\.history\[0\]\}"):
        steps(path)
