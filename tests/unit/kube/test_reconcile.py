"""From a child to its owner."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.kube.client import Cluster
from harness.kube.informer import Informer
from harness.kube.reconcile import Queue, follow_children, owner_key
from harness.kube.resources import JOB, NODE, VM

Json = dict[str, Any]


def child(**reference: Any) -> Json:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "v", "controller": True, **reference}
    return {"metadata": {"namespace": "a", "name": "x", "resourceVersion": "1", "ownerReferences": [owner]}}


def test_owner_is_in_its_childs_namespace() -> None:
    assert owner_key(child(), VM) == ("a", "v")


def test_owner_of_another_version_of_the_group_is_the_same() -> None:
    assert owner_key(child(apiVersion="kubevirt.io/v1alpha3"), VM) == ("a", "v")


@pytest.mark.parametrize(
    "reference",
    [{"kind": "VirtualMachineInstance"}, {"apiVersion": "other.io/v1"}, {"apiVersion": "v1"}, {"controller": False}],
)
def test_what_is_not_its_controller_of_that_kind_is_no_owner(reference: Json) -> None:
    assert owner_key(child(**reference), VM) is None


def test_owner_without_a_namespace_has_none() -> None:
    assert owner_key(child(apiVersion="v1", kind="Node", name="n"), NODE) == ("", "n")


def test_change_of_a_child_puts_its_owner_into_the_queue() -> None:
    children, queue = Informer(cast(Cluster, None), JOB), Queue()
    follow_children(children, VM, queue)
    children._store("ADDED", child())
    children._store("MODIFIED", {"metadata": {"namespace": "a", "name": "y", "resourceVersion": "2"}})
    assert queue.take() == ("a", "v")
    assert len(queue) == 0
