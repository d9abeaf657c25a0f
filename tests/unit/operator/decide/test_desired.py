"""Digests of plain data. Properties of them for any data are in test_properties.py."""

from __future__ import annotations

from harness.operator.decide.desired import digest_of


def test_a_whole_number_is_the_same_with_and_without_a_point() -> None:
    assert digest_of({"a": [2.0, {"b": -0.0}]}) == digest_of({"a": [2, {"b": 0}]})
    assert digest_of({"a": 2.5}) != digest_of({"a": 2})
    assert digest_of({"a": 1}) != digest_of({"a": True})


def test_a_digest_is_short_enough_to_compare_by_eye() -> None:
    assert digest_of({}) == "44136fa355b3678a"
