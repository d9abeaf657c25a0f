"""Docstrings say what keys are."""

from __future__ import annotations

import pytest

from harness.spec.base import described


@pytest.mark.parametrize(
    ("docstring", "whole", "keys"),
    [
        ("One thing.", "One thing.", {}),
        ("One thing.\n\na: the\n  first.  b: the second", "One thing.", {"a": "The first.", "b": "The second."}),
        ("One.\n\na, b: both.\n\nIn all.", "One.\n\nIn all.", {"a": "Both.", "b": "Both."}),
        ("One.\n\na_b: `x` or y.\n    c: no key.", "One.", {"a_b": "`x` or y. c: no key."}),
        ("Of a: all. b: none.", "Of a: all. b: none.", {}),
    ],
)
def test_an_entry_belongs_to_its_keys(docstring: str, whole: str, keys: dict[str, str]) -> None:
    assert described(docstring, ["a", "b", "a_b"]) == (whole, keys)
