"""Small facts about objects; the local copy that informers keep; events."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest

from harness.embedded.events import Events
from harness.embedded.objects import dig, quantity, with_condition
from harness.kube.client import Cluster
from harness.kube.informer import Informer
from harness.kube.resources import VMI

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("text", "value"),
    [("2Gi", 2 * 1024**3), ("200m", Decimal("0.2")), ("1e3", 1000), ("35M", 35_000_000), ("1k", 1000), (4, 4)],
)
def test_quantity(text: str | int, value: Decimal) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "2GiB", "x", "1 Gi"])
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


def vmi(version: int, **status: Any) -> Json:
    return {"metadata": {"namespace": "a", "name": "x", "resourceVersion": str(version)}, "status": status}


def informer() -> Informer:
    return Informer(cast(Cluster, None), VMI)


def test_answer_of_a_write_is_seen_at_once_and_an_older_one_is_dropped() -> None:
    found = informer()
    found.observe(vmi(5, phase="new"))
    found.observe(vmi(4, phase="old"))
    assert (found.get("a", "x") or {})["status"] == {"phase": "new"}


def test_late_watch_event_does_not_undo_a_later_write() -> None:
    found = informer()
    found.observe(vmi(5, phase="new"))
    found._store("MODIFIED", vmi(4, phase="old"))
    found._store("DELETED", vmi(3))
    assert (found.get("a", "x") or {})["status"] == {"phase": "new"}


def test_answer_of_a_write_does_not_bring_back_what_the_watch_saw_go() -> None:
    found = informer()
    found._store("ADDED", vmi(1))
    found._store("DELETED", vmi(9))
    found.observe(vmi(8))
    assert found.get("a", "x") is None


class Api:
    """Remembers the events written."""

    def __init__(self) -> None:
        self.made: list[Json] = []
        self.counted: list[Json] = []

    def ensure(self, _: object, body: Json) -> Json:
        self.made.append(body)
        return body

    def merge(self, _: object, name: str, patch: Json, namespace: str) -> Json:
        self.counted.append({"name": name, **patch})
        return {}


ABOUT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": "u"}}


def test_repeated_event_is_counted() -> None:
    api = Api()
    events = Events(cast(Cluster, api))
    for _ in range(3):
        events.warning(ABOUT, "SyncFailed", "no disk", component="virt-handler")
    events.warning(ABOUT, "SyncFailed", "another", component="virt-handler")
    assert [e["message"] for e in api.made] == ["no disk", "another"]
    assert [e["count"] for e in api.counted] == [2, 3]
    assert {e["name"] for e in api.counted} == {api.made[0]["metadata"]["name"]}
