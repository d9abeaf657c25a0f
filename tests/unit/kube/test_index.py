"""Objects by a value of theirs."""

from __future__ import annotations

from typing import Any

from harness.kube.index import Index


def rack(obj: dict[str, Any]) -> str | None:
    return obj.get("rack")


def test_an_object_is_found_by_what_it_has_now() -> None:
    index = Index(rack)
    for name in ("a", "b", "c"):
        index.put(("ns", name), {"rack": "one"})
    index.put(("ns", "b"), {"rack": "two"})
    index.put(("ns", "c"), {})
    assert list(index.keys("one")) == [("ns", "a")]
    assert list(index.keys("two")) == [("ns", "b")]
    index.put(("ns", "a"), None)
    index.put(("ns", "a"), None)
    assert list(index.keys("one")) == []


def test_nothing_is_kept_of_what_is_gone() -> None:
    index = Index(rack)
    for number in range(100):
        index.put(("ns", "a"), {"rack": str(number)})
    index.put(("ns", "a"), None)
    assert (index._keys, index._values) == ({}, {})
