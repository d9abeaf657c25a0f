"""The local copy that informers keep."""

from __future__ import annotations

from typing import Any, cast

from harness.kube.client import Cluster
from harness.kube.informer import Informer
from harness.kube.resources import VMI

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
