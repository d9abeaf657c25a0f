"""Small facts about objects."""

from __future__ import annotations

from decimal import Decimal

import pytest

from harness.kube.objects import dig, go_duration, holds, quantity, secret_content, secret_data, with_condition


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("2Gi", 2 * 1024**3),
        ("0.5Mi", 1024**2 // 2),
        ("200m", Decimal("0.2")),
        ("1500m", Decimal("1.5")),
        ("250u", Decimal("0.00025")),
        ("12345n", Decimal("0.000012345")),  # CPU as metrics-server writes it
        ("1e3", 1000),
        ("35M", 35_000_000),
        ("1k", 1000),
        (4, 4),
    ],
)
def test_quantity(text: str | int, value: Decimal) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "2GiB", "x", "1 Gi", "1.2.3.4", "1.2.3", "1e9999999"])
def test_nonsense_is_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)


def test_dig_stops_at_what_is_missing() -> None:
    assert dig({"a": {"b": 1}}, "a", "b") == 1
    assert dig({"a": None}, "a", "b") is None
    assert dig(None, "a") is None


def test_condition_that_says_the_same_keeps_its_times() -> None:
    old = {"type": "Ready", "status": "False", "reason": "A", "message": "m", "lastTransitionTime": "1"}
    assert with_condition([old], {**old, "lastTransitionTime": "2"}) == [old]


def test_condition_with_a_new_reason_keeps_its_transition_time() -> None:
    old = {"type": "Ready", "status": "False", "reason": "A", "message": "m", "lastTransitionTime": "1"}
    new = {**old, "reason": "B", "lastTransitionTime": "2"}
    assert with_condition([old], new) == [{**new, "lastTransitionTime": "1"}]


def test_condition_that_turned_has_a_new_transition_time() -> None:
    old = {"type": "Ready", "status": "False", "lastTransitionTime": "1"}
    new = {"type": "Ready", "status": "True", "lastTransitionTime": "2"}
    assert with_condition([old], new) == [new]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0), ("0s", 0), ("60s", 60 * 10**9), ("1m0s", 60 * 10**9), ("1.5h", 5400 * 10**9), (".5s", 5 * 10**8),
        ("1h2m3s", 3723 * 10**9), ("-2s", -2 * 10**9), ("1ms", 10**6), ("1us", 1000), ("1\u00b5s", 1000), ("3ns", 3),
    ],
)  # fmt: skip
def test_durations_are_read_as_go_writes_them(text: str, nanoseconds: int) -> None:
    assert go_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "s", "1", "1 s", "1d", "1s2", "--1s", "1m ", "..5s"])
def test_nonsense_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        go_duration(text)


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


def test_what_a_secret_holds_is_what_was_put_into_it() -> None:
    content = {"tls.key": b"\x00\xff", "empty": b""}
    assert secret_data({"a": b"b"}) == {"a": "Yg=="}
    assert secret_content({"data": secret_data(content)}) == content
    assert secret_content({"data": None}) == secret_content({}) == secret_content(None) == {}
