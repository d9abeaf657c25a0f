"""Namespaces that are being deleted: emptied, pods first, and ended when nothing is left in them."""

from __future__ import annotations

import pytest

from harness.embedded.namespaces import controller
from harness.embedded.namespaces.controller import Ending
from harness.kube.client import ApiFailure, Unreachable
from harness.kube.resources import NAMESPACE
from tests.unit.embedded.namespaces.world import ApiOfNamespaces, group, namespace, served_as, without_pause

LOOKS = 12  # more than any of these takes


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ending, "wait", without_pause)
    monkeypatch.setattr(controller, "TOLD_SECONDS", 0.0)


def end(world: ApiOfNamespaces) -> None:
    for _ in range(LOOKS):
        if not world.look():
            return
    raise AssertionError("still to end")


def trouble(world: ApiOfNamespaces, kind: str) -> str:
    """Return the message of a condition as it was written last, "" when it does not hold."""
    said = [one for body in world.written for one in body["status"].get("conditions", []) if one["type"] == kind]
    return said[-1]["message"] if said and said[-1]["status"] == "True" else ""


def test_what_is_in_a_namespace_goes_and_then_the_namespace() -> None:
    world = ApiOfNamespaces(namespace("a"))
    world.content = {("configmaps", "a"): ["one", "two"], ("secrets", "a"): ["three"], ("secrets", "b"): ["other"]}
    end(world)
    deleted = [asked for asked in world.asked if asked.startswith("DELETE")]
    assert deleted == ["DELETE /api/v1/namespaces/a/configmaps", "DELETE /api/v1/namespaces/a/secrets/three"]
    assert world.ended() == ["a"]
    assert world.written[-1]["spec"]["finalizers"] == []
    assert world.content["secrets", "b"] == ["other"]


def test_one_that_is_not_being_deleted_stays() -> None:
    there = namespace("a")
    del there["metadata"]["deletionTimestamp"]
    world = ApiOfNamespaces(there)
    assert not world.look()
    assert world.asked == []


def test_one_that_was_ended_is_left_alone_while_it_is_still_shown() -> None:
    world = ApiOfNamespaces(namespace("a"))
    end(world)
    asked = list(world.asked)
    assert not world.look()
    assert world.asked == asked


def test_one_that_is_no_cells_has_kubernetes_own_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ApiOfNamespaces(namespace("a", cell=False))
    again = world.namespaces.reconcile(controller.ALL)
    assert again is not None
    assert 4 < again <= controller.PAUSE_SECONDS
    assert world.asked == []
    monkeypatch.setattr(controller, "PAUSE_SECONDS", 0.0)
    other = ApiOfNamespaces(namespace("a", cell=False))
    end(other)
    assert other.ended() == ["a"]


def test_finalizers_of_others_are_kept() -> None:
    world = ApiOfNamespaces(namespace("a", finalizers=("example.org/mine", "kubernetes")))
    end(world)
    assert world.written[-1]["spec"]["finalizers"] == ["example.org/mine"]


def test_pods_go_before_anything_else() -> None:
    world = ApiOfNamespaces(namespace("a"))
    world.content = {("pods", "a"): ["slow"], ("secrets", "a"): ["used"]}
    world.held = {"slow": ["example.org/hold"]}
    assert world.look()
    assert world.look()
    assert world.content["secrets", "a"] == ["used"]
    assert "pods. has 1 resource instances" in trouble(world, "NamespaceContentRemaining")
    world.content["pods", "a"] = []
    end(world)
    assert world.content["secrets", "a"] == []
    assert world.ended() == ["a"]


def test_what_holds_a_namespace_is_told() -> None:
    world = ApiOfNamespaces(namespace("a"))
    world.content, world.held = {("configmaps", "a"): ["held", "free"]}, {"held": ["example.org/x"]}
    assert world.look()
    assert world.look()
    assert "configmaps. has 1" in trouble(world, "NamespaceContentRemaining")
    assert "example.org/x in 1 resource instances" in trouble(world, "NamespaceFinalizersRemaining")
    assert world.ended() == []
    deletions = [asked for asked in world.asked if asked.startswith("DELETE")]
    assert len(deletions) == 1, "what is being deleted is not deleted again"


def test_what_holds_a_namespace_for_a_moment_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "TOLD_SECONDS", 60.0)
    world = ApiOfNamespaces(namespace("a"))
    world.content, world.held = {("configmaps", "a"): ["held"]}, {"held": ["example.org/x"]}
    assert world.look()
    assert world.written == []


def test_an_object_that_came_while_the_others_went_is_found() -> None:
    world = ApiOfNamespaces(namespace("a"))
    world.content = {("configmaps", "a"): ["one"]}
    assert world.look()
    world.content["secrets", "a"] = ["late"]
    end(world)
    assert world.content["secrets", "a"] == []
    assert world.ended() == ["a"]


def test_a_deletion_that_is_refused_is_told_and_keeps_nothing_else() -> None:
    world = ApiOfNamespaces(namespace("a"))
    world.content = {("configmaps", "a"): ["wanted"], ("secrets", "a"): ["free"]}
    path = "/api/v1/namespaces/a/configmaps/wanted"
    world.refused["DELETE", path] = ApiFailure(403, "Forbidden", "a webhook says no", [], request=path)
    assert world.look()
    assert world.look()
    assert "a webhook says no" in trouble(world, "NamespaceDeletionContentFailure")
    assert world.content["secrets", "a"] == []
    world.refused.clear()
    end(world)
    assert world.ended() == ["a"]


def test_a_kind_that_cannot_be_listed_holds_a_namespace() -> None:
    world = ApiOfNamespaces(namespace("a"))
    path = "/api/v1/namespaces/a/secrets"
    world.refused["GET", path] = ApiFailure(500, "InternalError", "conversion failed", [], request=path)
    assert world.look()
    assert "secrets: conversion failed" in trouble(world, "NamespaceDeletionContentFailure")
    world.refused.clear()
    end(world)


def test_a_kind_that_is_not_served_any_more_holds_nothing() -> None:
    world = ApiOfNamespaces(namespace("a"))
    path = "/api/v1/namespaces/a/secrets"
    world.refused["GET", path] = ApiFailure(404, "NotFound", "gone", [], request=path)
    end(world)


def test_an_api_that_cannot_say_what_it_has_holds_a_namespace() -> None:
    world = ApiOfNamespaces(namespace("a"))
    world.content = {("configmaps", "a"): ["one"]}
    world.groups.append(group("example.org", freshness="Stale"))
    assert world.look()
    assert world.look()
    assert "example.org/v1: stale" in trouble(world, "NamespaceDeletionDiscoveryFailure")
    assert world.content["configmaps", "a"] == []
    assert world.ended() == []
    world.groups[-1] = group("example.org", served_as("things"))
    end(world)
    assert world.ended() == ["a"]


def test_many_share_their_lists() -> None:
    names = [f"n{number}" for number in range(30)]
    world = ApiOfNamespaces(*map(namespace, names))
    world.content = {("configmaps", name): ["one", "two"] for name in names}
    end(world)
    assert sorted(world.ended()) == sorted(names)
    lists = [asked for asked in world.asked if asked.startswith("GET /api/v1/")]
    assert len(lists) <= 8
    assert not [asked for asked in lists if "/namespaces/" in asked]


def test_one_of_the_same_name_is_another_one() -> None:
    world = ApiOfNamespaces(namespace("a", uid="first"))
    end(world)
    world.content = {("secrets", "a"): ["new"]}
    another = namespace("a", uid="second")
    another["metadata"]["resourceVersion"] = "2"
    world.informers.of(NAMESPACE).observe(another)
    end(world)
    assert world.ended() == ["a", "a"]
    assert world.content["secrets", "a"] == []


def test_one_that_somebody_changed_meanwhile_is_ended_later() -> None:
    world = ApiOfNamespaces(namespace("a"))
    path = "/api/v1/namespaces/a/finalize"
    world.refused["PUT", path] = ApiFailure(409, "Conflict", "changed", [], request=path)
    assert world.look()
    world.refused.clear()
    end(world)
    assert world.written[-1]["spec"]["finalizers"] == []


def test_one_whose_end_is_refused_does_not_keep_others() -> None:
    world = ApiOfNamespaces(*map(namespace, "abc"))
    path = "/api/v1/namespaces/a/finalize"
    world.refused["PUT", path] = ApiFailure(403, "Forbidden", "a webhook says no", [], request=path)
    for _ in range(LOOKS):
        world.look()
    assert {"b", "c"} <= set(world.ended())
    world.refused.clear()
    end(world)


def test_one_whose_content_is_slow_to_be_refused_does_not_keep_others() -> None:
    world = ApiOfNamespaces(*map(namespace, "abc"))
    world.content = {("configmaps", name): ["one", "two"] for name in "abc"}
    path = "/api/v1/namespaces/a/configmaps"
    world.refused["DELETE", path] = Unreachable("no answer within 30 s")
    for _ in range(LOOKS):
        world.look()
    assert set(world.ended()) == {"b", "c"}
    assert "no answer within 30 s" in trouble(world, "NamespaceDeletionContentFailure")


def test_a_kind_that_cannot_be_listed_for_all_is_listed_for_each() -> None:
    world = ApiOfNamespaces(*map(namespace, "abc"))
    for path in ("/api/v1/secrets", "/api/v1/namespaces/a/secrets"):
        world.refused["GET", path] = ApiFailure(500, "InternalError", "conversion failed", [], request=path)
    for _ in range(LOOKS):
        world.look()
    assert set(world.ended()) == {"b", "c"}
    assert "conversion failed" in trouble(world, "NamespaceDeletionContentFailure")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_kind_without_lists_or_without_deletions_of_all_is_no_trouble(method: str) -> None:
    world = ApiOfNamespaces(namespace("a"))
    world.content = {("configmaps", "a"): ["one", "two"]}
    path = "/api/v1/namespaces/a/" + {"GET": "secrets", "DELETE": "configmaps"}[method]
    world.refused[method, path] = ApiFailure(405, "MethodNotAllowed", "no", [], request=path)
    end(world)
    assert world.content["configmaps", "a"] == []


def test_one_that_is_gone_meanwhile_is_no_trouble() -> None:
    world = ApiOfNamespaces(namespace("a"))
    path = "/api/v1/namespaces/a/finalize"
    world.refused["PUT", path] = ApiFailure(404, "NotFound", "gone", [], request=path)
    end(world)


def test_looks_at_what_is_slow_to_go_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    world = ApiOfNamespaces(namespace("a"))
    world.content, world.held = {("configmaps", "a"): ["held"]}, {"held": ["example.org/x"]}
    first = world.namespaces.reconcile(controller.ALL)
    assert first is not None
    assert 0 < first <= controller.FIRST_PAUSE
    asked = len(world.asked)
    assert world.look()
    assert len(world.asked) == asked, "it is not due yet"
