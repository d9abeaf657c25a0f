"""Namespaces of an embedded infrastructure end as Kubernetes' own do, and without its pause."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from harness.kube.client import Cluster, allowed
from harness.kube.objects import condition, is_condition
from harness.kube.resources import CONFIG_MAP, CRD, NAMESPACE, SECRET, SERVICE_ACCOUNT, VM, Resource
from harness.until import Deadline, NotYet, until

SECONDS = 30.0
HOLD = "example.org/hold"
ACCOUNT = "system:serviceaccount:kube-system:namespace-controller"


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    name = f"end-{secrets.token_hex(3)}"
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def things(cluster: Cluster) -> Iterator[Resource]:
    """A kind that was not there when the infrastructure came up."""
    thing = Resource(f"{secrets.token_hex(3)}.example.org", "v1", "things", "Thing")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "group": thing.group,
        "scope": "Namespaced",
        "names": {"plural": thing.plural, "singular": "thing", "kind": thing.kind, "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    name = f"{thing.plural}.{thing.group}"
    kind = {"apiVersion": CRD.api_version, "kind": "CustomResourceDefinition"}
    cluster.create(CRD, {**kind, "metadata": {"name": name}, "spec": spec})

    def established() -> bool | NotYet:
        return is_condition(cluster.get(CRD, name), "Established", "True") or NotYet("not established")

    until(established, deadline=Deadline.after(SECONDS), what=f"{name} to be served", interval=0.1)
    yield thing
    cluster.delete(CRD, name)


def wait_until_gone(cluster: Cluster, name: str) -> None:
    def gone() -> bool | NotYet:
        found = cluster.get(NAMESPACE, name)
        return True if found is None else NotYet(str(found["status"]))

    until(gone, deadline=Deadline.after(SECONDS), what=f"namespace {name} to be gone", interval=0.1)


def held(kind: Resource, name: str, namespace: str, **content: Any) -> dict[str, Any]:
    made = kind.manifest(name, namespace, labels={}, **content)
    made["metadata"]["finalizers"] = [HOLD]
    return made


def test_everything_in_a_namespace_goes_with_it(cluster: Cluster, namespace: str, things: Resource) -> None:
    for number in range(3):
        cluster.create(CONFIG_MAP, CONFIG_MAP.manifest(f"map-{number}", namespace, labels={}))
        cluster.create(things, things.manifest(f"thing-{number}", namespace, labels={}))
    cluster.create(SECRET, SECRET.manifest("secret", namespace, labels={}))
    cluster.delete(NAMESPACE, namespace)
    wait_until_gone(cluster, namespace)
    for kind in (CONFIG_MAP, SECRET, SERVICE_ACCOUNT, things):
        assert [one for one in cluster.list(kind).items if one["metadata"]["namespace"] == namespace] == []


def test_what_holds_a_namespace_stands_in_its_status_and_ends_with_it(cluster: Cluster, namespace: str) -> None:
    cluster.create(CONFIG_MAP, held(CONFIG_MAP, "one", namespace))
    cluster.delete(NAMESPACE, namespace)

    def told() -> bool | NotYet:
        found = cluster.get(NAMESPACE, namespace)
        return is_condition(found, "NamespaceFinalizersRemaining", "True") or NotYet(str((found or {}).get("status")))

    until(told, deadline=Deadline.after(SECONDS), what="the status to say what holds it", interval=0.2)
    found = cluster.get(NAMESPACE, namespace)
    said = condition(found, "NamespaceContentRemaining") or {}
    assert said["message"] == "Some resources are remaining: configmaps. has 1 resource instances"
    assert HOLD in (condition(found, "NamespaceFinalizersRemaining") or {})["message"]
    cluster.merge(CONFIG_MAP, "one", {"metadata": {"finalizers": None}}, namespace)
    wait_until_gone(cluster, namespace)


def test_a_machine_that_never_ran_goes_with_its_namespace(cluster: Cluster, namespace: str) -> None:
    template = {"spec": {"domain": {"devices": {}, "resources": {"requests": {"memory": "64Mi"}}}}}
    cluster.create(
        VM, VM.manifest("halted", namespace, labels={}, spec={"runStrategy": "Halted", "template": template})
    )
    cluster.delete(NAMESPACE, namespace)
    wait_until_gone(cluster, namespace)


def test_one_of_the_same_name_keeps_what_it_has(cluster: Cluster, namespace: str) -> None:
    for number in range(5):
        cluster.create(CONFIG_MAP, CONFIG_MAP.manifest(f"map-{number}", namespace, labels={}))
        cluster.delete(NAMESPACE, namespace)
        wait_until_gone(cluster, namespace)
        cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    cluster.create(CONFIG_MAP, CONFIG_MAP.manifest("kept", namespace, labels={}))
    assert cluster.get(CONFIG_MAP, "kept", namespace) is not None
    cluster.delete(NAMESPACE, namespace)
    wait_until_gone(cluster, namespace)


def test_who_ends_namespaces_may_what_kubernetes_own_controller_may_and_no_more(cluster: Cluster) -> None:
    user = {"user": ACCOUNT, "groups": ["system:serviceaccounts", "system:authenticated"]}
    ends = {"resource": "namespaces", "subresource": "finalize", "verb": "update"}
    makes = {"resource": "configmaps", "verb": "create", "namespace": "default"}
    assert allowed(cluster, user, ends)[0]
    assert not allowed(cluster, user, makes)[0]
