"""An API that has namespaces and what is in them, and that records what it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from harness.embedded import namespaces
from harness.embedded.context import Context
from harness.embedded.namespaces import ALL, Ending, Namespaces, served
from harness.kube.client import ApiFailure, Cluster, Unreachable
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.resources import NAMESPACE
from harness.model import LABEL_CELL

Json = dict[str, Any]
MOMENT = "2026-01-01T00:00:00Z"
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def served_as(resource: str, *, verbs: list[str] | None = None, scope: str = "Namespaced") -> Json:
    """Return a kind as aggregated discovery shows it."""
    kind = {"group": "", "version": "", "kind": resource.title()}
    return {"resource": resource, "responseKind": kind, "scope": scope, "verbs": VERBS if verbs is None else verbs}


def group(name: str, *resources: Json, version: str = "v1", freshness: str = "Current") -> Json:
    """Return a group of one version as aggregated discovery shows it."""
    metadata = {"name": name} if name else {"creationTimestamp": None}
    return {"metadata": metadata, "versions": [{"version": version, "freshness": freshness, "resources": [*resources]}]}


def namespace(name: str, *, uid: str = "", finalizers: tuple[str, ...] = ("kubernetes",), cell: bool = True) -> Json:
    """Return a namespace that is being deleted; `cell`: of a cell."""
    meta: Json = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": "1", "deletionTimestamp": MOMENT}
    meta["labels"] = {LABEL_CELL: name} if cell else {}
    return {"metadata": meta, "spec": {"finalizers": [*finalizers]}, "status": {"phase": "Terminating"}}


class ApiOfNamespaces:
    """The API. `content`: names by (plural, namespace); `held`: finalizers of objects, by name."""

    def __init__(self, *namespaces: Json) -> None:
        self.groups = [group("", served_as("pods"), served_as("configmaps"), served_as("secrets"))]
        self.content: dict[tuple[str, str], list[str]] = {}
        self.held: dict[str, list[str]] = {}
        self.going: set[str] = set()  # what is being deleted and held
        self.refused: dict[tuple[str, str], ApiFailure | Unreachable] = {}  # by method and path
        self.asked: list[str] = []
        self.written: list[Json] = []
        self.informers = Informers(cast(Cluster, self))
        context = Context(cast(Cluster, self), self.informers, cast(Events, None), Path(), 0, ("node",))
        self.namespaces = Namespaces(context, cast(Cluster, self))
        for one in namespaces:
            self.informers.of(NAMESPACE).observe(one)

    def object(self, method: str, path: str, *, body: Json | None = None, accept: str = "") -> Json:
        """Answer one request."""
        return cast(Json, self.request(method, path, body=body, accept=accept))

    def request(self, method: str, path: str, *, body: Json | None = None, accept: str = "") -> Any:
        """Answer one request."""
        self.asked.append(f"{method} {path}")
        if (method, path) in self.refused:
            raise self.refused[method, path]
        if path in ("/api", "/apis"):
            assert "APIGroupDiscoveryList" in accept
            return {"items": [one for one in self.groups if bool(one["metadata"].get("name")) == (path == "/apis")]}
        if method == "PUT":
            assert body is not None
            self.written.append(body)
            return body
        parts = path.split("/")
        inside = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        rest = parts[parts.index("namespaces") + 2 :] if inside else parts[-1:]
        if method == "GET":
            assert "PartialObjectMetadataList" in accept
            return {"items": [{"metadata": one} for one in self._metas(rest[0], inside)]}
        self._delete(rest[0], inside, rest[1:])
        return {}

    def _metas(self, plural: str, inside: str) -> list[Json]:
        return [
            {
                "name": name,
                "namespace": space,
                "finalizers": self.held.get(name, []),
                **({"deletionTimestamp": MOMENT} if name in self.going else {}),
            }
            for (kind, space), names in self.content.items()
            for name in names
            if kind == plural and inside in ("", space)
        ]

    def _delete(self, plural: str, inside: str, only: list[str]) -> None:
        names = self.content.get((plural, inside), [])
        self.going |= {name for name in names if name in self.held and name in (only or names)}
        self.content[plural, inside] = [name for name in names if name in self.held or (only and name not in only)]

    def look(self) -> bool:
        """Let the controller look once; tell whether something is still to end."""
        return self.namespaces.reconcile(ALL) is not None

    def ended(self) -> list[str]:
        """Return the namespaces that were ended, in their order."""
        return [asked.split("/")[-2] for asked in self.asked if asked.startswith("PUT") and asked.endswith("/finalize")]


def without_pause(ending: Ending) -> None:
    """Stand for Ending.wait: look again at once."""
    ending.due = 0.0


def test_kinds_are_those_that_can_be_listed_and_deleted_in_namespaces() -> None:
    world = ApiOfNamespaces()
    world.groups = [
        group("", served_as("pods"), served_as("bindings", verbs=["create"]), served_as("nodes", scope="Cluster")),
        group("example.org", served_as("things", verbs=["delete", "list"])),
        group("events.k8s.io", served_as("events")),
        group("down.example.org", version="v2", freshness="Stale"),
    ]
    found = served(cast(Cluster, world))
    assert [(kind.resource.path("a"), kind.collection) for kind in found.kinds] == [
        ("/api/v1/namespaces/a/pods", True),
        ("/apis/example.org/v1/namespaces/a/things", False),
    ]
    assert found.stale == ("down.example.org/v2",)


def test_each_kind_is_asked_for_once_in_the_version_that_its_group_prefers() -> None:
    world = ApiOfNamespaces()
    both = group("example.org", served_as("things"), version="v1")
    both["versions"] += group("", served_as("things"), served_as("older"), version="v1beta1")["versions"]
    world.groups = [both]
    found = served(cast(Cluster, world))
    assert [kind.resource.path() for kind in found.kinds] == [
        "/apis/example.org/v1/things",
        "/apis/example.org/v1beta1/older",
    ]


LOOKS = 12  # more than any of these takes


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ending, "wait", without_pause)
    monkeypatch.setattr(namespaces, "TOLD_SECONDS", 0.0)


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
    again = world.namespaces.reconcile(namespaces.ALL)
    assert again is not None
    assert 4 < again <= namespaces.PAUSE_SECONDS
    assert world.asked == []
    monkeypatch.setattr(namespaces, "PAUSE_SECONDS", 0.0)
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
    monkeypatch.setattr(namespaces, "TOLD_SECONDS", 60.0)
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
    first = world.namespaces.reconcile(namespaces.ALL)
    assert first is not None
    assert 0 < first <= namespaces.FIRST_PAUSE
    asked = len(world.asked)
    assert world.look()
    assert len(world.asked) == asked, "it is not due yet"
