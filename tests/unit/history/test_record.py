"""A cell run becomes one line, and the line that cell run again; nothing else in a line does any harm."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.history.record import MachineRecord, RunOrigin, Unreadable, from_line, part_of, to_line
from harness.sanitize import sanitized, scrubber
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import records


@given(st.binary(max_size=300))
def test_no_bytes_are_fatal(line: bytes) -> None:
    with pytest.raises(Unreadable):
        from_line(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(key=st.sampled_from(sorted(asdict(record()))), value=json_values)
def test_no_value_of_any_key_is_fatal(key: str, value: object) -> None:
    changed = {**json.loads(to_line(checked(record(), {"a: b": "f"}))), key: value}
    with suppress(Unreadable):
        assert from_line(json.dumps(changed).encode()).id


def test_every_synthetic_record_survives_its_line() -> None:
    for one in records(40, 8, 3):
        assert from_line(to_line(one)) == one


@given(st.text(max_size=200))
def test_any_text_survives(text: str) -> None:
    clean = sanitized(scrubber({})(text))
    assert from_line(to_line(checked(record(), {"a: b": "f"}, clean))).notes[0].message == clean


def test_keys_of_a_later_time_are_passed_over() -> None:
    line = json.dumps({**json.loads(to_line(record())), "mood": "good"}).encode()
    assert from_line(line) == record()


def test_a_later_version_says_so() -> None:
    with pytest.raises(Unreadable, match="version 2 of the history; this vmatrix knows version 1"):
        from_line(b'{"v":2,"cells":[]}')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"started": "2026-99-01T00:00:00Z"}, "started, finished"),
        ({"finished": "2020-01-01T00:00:00Z"}, "is before started"),
        ({"seconds": -1}, "seconds"),
        ({"outcome": "splendid"}, "outcome"),
        ({"outcome": "not-run"}, "outcome: not-run is a check's"),
        ({"checks": {"names": ["a"], "rows": [{"stage": "deploy", "results": "pp"}]}}, "not as long as"),
    ],
)
def test_what_makes_no_sense_is_named(change: dict[str, object], said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        from_line(json.dumps({**json.loads(to_line(record())), **change}).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": float("nan")},
        {"waited": -1.0},
        {"parallel": 10**30},
        {"night": 20261123},
        {"axes": {"os": 5}},
        {"around": {"host load": 5}},
        {"where": RunOrigin(commit=5)},  # type: ignore[arg-type]
        {"started": "0001-01-01T00:00:00Z"},
        {"finished": "9999-12-31T23:59:59Z"},
        {"cell": "c" * 101},
    ],
    ids=str,
)
def test_what_could_not_be_read_again_is_not_written(change: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        to_line(replace(record(), **change))


@pytest.mark.parametrize(
    ("kind", "told", "left"),
    [
        (RunOrigin, {"commit": "a", "later": {"x": 1}}, RunOrigin(commit="a")),
        (RunOrigin, {"commit": 5, "branch": "main", "ahead": float("nan")}, RunOrigin(branch="main")),
        (MachineRecord, {"peak": 5, "later": "x", "disk": -1}, MachineRecord(peak=5)),
    ],
)
def test_a_part_of_a_record_is_what_can_be_read_of_it(kind: Any, told: dict[str, Any], left: object) -> None:
    assert part_of(kind, told) == left
