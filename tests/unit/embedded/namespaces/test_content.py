"""Which kinds a namespace may have."""

from __future__ import annotations

from typing import cast

from harness.embedded.namespaces.content import served
from harness.kube.client import Cluster
from tests.unit.embedded.namespaces.world import ApiOfNamespaces, group, served_as


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
