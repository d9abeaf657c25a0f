"""The local copy that informers keep."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from harness.kube.client import Cluster, Listing
from harness.kube.informer import Index, Informer, Informers
from harness.kube.resources import NODE, VMI, Resource
from harness.until import Deadline, NotYet, until

Json = dict[str, Any]


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


class Asked:
    """A cluster of nothing that remembers what was asked for: plural, namespace and labels."""

    def __init__(self) -> None:
        self.of: set[tuple[str, str, str | None, str]] = set()

    def list(self, resource: Resource, namespace: str | None, *, labels: str) -> Listing:
        self.of.add(("list", resource.plural, namespace, labels))
        return Listing([], "1")

    def watch(
        self, resource: Resource, namespace: str | None, *, resource_version: str, labels: str
    ) -> Iterator[tuple[str, Json]]:
        self.of.add(("watch", resource.plural, namespace, labels))
        return iter(())


def test_informers_of_one_namespace_ask_for_no_other() -> None:
    asked = Asked()
    informers = Informers(cast(Cluster, asked), "a")
    for found in (informers.of(VMI), informers.of(VMI, labels="x=y"), informers.of(NODE)):
        found._version = found._relist()
        found._follow()
    assert asked.of == {
        (verb, *what)
        for verb in ("list", "watch")
        for what in (("virtualmachineinstances", "a", ""), ("virtualmachineinstances", "a", "x=y"), ("nodes", None, ""))
    }


def test_a_kind_and_a_part_of_it_are_two_informers() -> None:
    informers = Informers(cast(Cluster, Asked()))
    assert informers.of(VMI) is informers.of(VMI)
    assert informers.of(VMI) is not informers.of(VMI, labels="x=y")


def test_an_informer_whose_thread_a_listener_ended_is_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    informers = Informers(cast(Cluster, Broken()))
    informers.of(VMI)
    assert informers.deaf() == []
    informers.start()
    until(lambda: informers.deaf() or NotYet("it is not"), deadline=Deadline.after(60), what="an end", interval=0.01)
    assert informers.deaf() == ["virtualmachineinstances"]
    informers.stop()
    assert informers.deaf() == []


class Broken:
    """A cluster that fails as no API does."""

    def list(self, *_: object, **__: object) -> Listing:
        raise TypeError("a bug")


class Written:
    """A cluster that takes every write and remembers it; the answer is the object with its status, some versions on."""

    def __init__(self, **metadata: Any) -> None:
        self.metadata = metadata
        self.took: list[Json] = []

    def merge(self, _: Resource, name: str, body: Json, namespace: str, *, subresource: str | None) -> Json:
        self.took.append({"of": (namespace, name, subresource), **body})
        made = vmi(int(body["metadata"]["resourceVersion"]) + len(self.took), **body.get("status", {}))
        return {**made, "metadata": made["metadata"] | self.metadata}


def test_a_patch_names_the_version_that_was_seen_and_its_answer_is_seen_at_once() -> None:
    cluster = Written()
    found = Informer(cast(Cluster, cluster), VMI)
    found.merge(vmi(5), {"metadata": {"labels": {"a": "b"}}})
    found.merge_status(vmi(5, phase="old", other=1), {"phase": "new", "other": 1})
    assert cluster.took == [
        {"of": ("a", "x", None), "metadata": {"resourceVersion": "5", "labels": {"a": "b"}}},
        {"of": ("a", "x", "status"), "metadata": {"resourceVersion": "5"}, "status": {"phase": "new"}},
    ]
    assert (found.get("a", "x") or {})["status"] == {"phase": "new"}


def test_a_status_that_is_as_wanted_is_not_written() -> None:
    cluster, same = Written(), vmi(5, phase="new")
    assert Informer(cast(Cluster, cluster), VMI).merge_status(same, {"phase": "new", "node": None}) is same
    assert cluster.took == []


def test_the_last_word_of_an_object_that_is_gone_is_not_kept() -> None:
    found = Informer(cast(Cluster, Written(deletionTimestamp="x")), VMI)
    found.merge(vmi(5), {"metadata": {"finalizers": []}})
    assert found.get("a", "x") is None


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
