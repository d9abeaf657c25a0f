"""What is installed once."""

from __future__ import annotations

import pytest

from harness.kube.ensure import holds


@pytest.mark.parametrize(
    ("found", "wanted", "answer"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": 1}, False),
        ({"l": [{"x": 1, "y": 2}]}, {"l": [{"x": 1}]}, True),
        ({"l": [1, 2]}, {"l": [1]}, False),
        ({"lastTransitionTime": "then"}, {"lastTransitionTime": "now"}, True),
    ],
)
def test_an_object_that_holds_all_that_is_wanted_is_left_alone(found: object, wanted: object, answer: bool) -> None:
    assert holds(found, wanted) == answer
