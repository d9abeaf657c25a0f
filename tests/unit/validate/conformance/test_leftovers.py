"""Pods of specs that have ended: hurried while others run, and waited for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from harness.kube.client import Cluster
from harness.kube.failures import ApiFailure
from harness.kube.resources import NAMESPACE, POD
from harness.until import Deadline
from harness.validate.conformance import leftovers
from harness.validate.conformance.leftovers import hurried, left_of_specs, specs_namespaces
from tests.unit.validate.guests import NOWHERE

MOMENT = "2026-11-25T00:00:00Z"


class Emptying(Cluster):
    """An API whose namespaces of specs, and whose pods, are fewer at each look."""

    def __init__(self, *looks: list[str], ending: Mapping[str, int] | None = None, whole: bool = False) -> None:
        super().__init__(NOWHERE)
        self.whole = whole  # the namespace is being deleted
        self.looks = list(looks)
        self.ending = ending or {}  # pods that are being deleted, and the seconds that they have
        self.hurried: list[tuple[str, int | None]] = []

    def list(self, resource: Any, *_: Any, labels: str = "", **__: Any) -> Any:
        if resource is NAMESPACE:
            assert labels == "e2e-framework"
            items = [{"metadata": {"name": "pods-1", **({"deletionTimestamp": MOMENT} if self.whole else {})}}]
        else:
            names = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
            items = [self._pod(name) for name in names]
        return type("Listing", (), {"items": items})

    def delete(
        self, resource: Any, name: str, namespace: str | None = None, *, grace: int | None = None, **_: Any
    ) -> bool:
        assert resource is POD
        self.hurried.append((f"{namespace}/{name}", grace))
        return True

    def _pod(self, name: str) -> dict[str, Any]:
        metadata: dict[str, Any] = {"namespace": name.partition("/")[0], "name": name[-1]}
        if name in self.ending:
            metadata |= {"deletionTimestamp": MOMENT, "deletionGracePeriodSeconds": self.ending[name]}
        return {"metadata": metadata}


def test_the_next_phase_waits_for_the_specs_pods_and_for_no_others() -> None:
    api = Emptying(["kube-system/a", "pods-1/b"], ["kube-system/a"])
    assert left_of_specs(api, Deadline.after(30)) == ""
    assert api.looks == [["kube-system/a"]]


def test_pods_of_a_spec_that_may_still_run_keep_their_time() -> None:
    ending = {"pods-1/b": 30, "pods-1/c": 1}
    api = Emptying(["pods-1/b", "pods-1/c", "pods-1/d"], [], ending=ending)
    assert left_of_specs(api, Deadline.after(30)) == ""
    assert api.hurried == []


def test_all_pods_of_a_namespace_that_is_being_deleted_are_deleted_at_once() -> None:
    ending = {"pods-1/b": 30, "pods-1/c": 1}
    api = Emptying(["kube-system/a", "pods-1/b", "pods-1/c", "pods-1/d"], [], ending=ending, whole=True)
    assert left_of_specs(api, Deadline.after(30)) == ""
    assert api.hurried == [("pods-1/b", 1), ("pods-1/d", 1)]


def test_pods_of_specs_that_stay_are_named() -> None:
    assert "left: pods-1/b" in left_of_specs(Emptying(["kube-system/a", "pods-1/b"]), Deadline.after(0))


def test_pods_of_specs_that_have_ended_are_hurried_while_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "LOOK_SECONDS", 0.01)
    api = Emptying(["pods-1/b"], [], whole=True)
    with hurried(api):
        while not api.hurried:
            time.sleep(0.01)
    assert api.hurried == [("pods-1/b", 1)]


def test_an_api_that_has_trouble_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "LOOK_SECONDS", 0.01)
    looks = list[str]()

    class Troubled(Emptying):
        def list(self, resource: Any, *given: Any, **more: Any) -> Any:
            looks.append(resource.plural)
            if len(looks) < 3:
                raise ApiFailure(503, "ServiceUnavailable", "starting", [], request="GET namespaces")
            return super().list(resource, *given, **more)

    api = Troubled(["pods-1/b"], [], whole=True)
    with hurried(api):
        while not api.hurried:
            time.sleep(0.01)
    assert api.hurried == [("pods-1/b", 1)]


def test_pods_of_another_run_whose_specs_let_them_stay_are_not_waited_for() -> None:
    api = Emptying(["pods-1/b"])
    assert specs_namespaces(api) == {"pods-1"}
    assert left_of_specs(api, Deadline.after(0), besides=specs_namespaces(api)) == ""


def test_namespaces_that_are_being_deleted_are_waited_for_whoever_made_them() -> None:
    assert specs_namespaces(Emptying(["pods-1/b"], whole=True)) == frozenset()
