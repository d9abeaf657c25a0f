"""Digests of plain data, and in which order sets give machines up. More about digests is in test_properties.py."""

from __future__ import annotations

from harness.operator.decide.desired import digest_of
from tests.unit.operator.decide.wishes import MACHINES, wish


def test_a_whole_number_is_the_same_with_and_without_a_point() -> None:
    assert digest_of({"a": [2.0, {"b": -0.0}]}) == digest_of({"a": [2, {"b": 0}]})
    assert digest_of({"a": 2.5}) != digest_of({"a": 2})
    assert digest_of({"a": 1}) != digest_of({"a": True})


def test_a_digest_is_short_enough_to_compare_by_eye() -> None:
    assert digest_of({}) == "44136fa355b3678a"


def test_sets_give_up_what_is_not_ready_then_what_is_marked_then_the_last() -> None:
    ready = [one.model_copy(update={"status": one.status.model_copy(update={"phase": "Ready"})}) for one in MACHINES]
    marked = ready[1].metadata.model_copy(update={"annotations": {"cluster.vmatrix.dev/delete-me": "it is noisy"}})
    ready[1] = ready[1].model_copy(update={"metadata": marked})
    assert wish(machines=tuple(ready)).scale_in == ("w-1", "w-2", "cp-0")
    ready[0] = MACHINES[0]
    assert wish(machines=tuple(ready)).scale_in[0] == "cp-0"
