"""From an object to the key of what controls it: a change of a child is a look at its owner."""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.objects import controller_of
from harness.kube.reconcile import Queue
from harness.kube.resources import Resource


def owner_key(obj: Json, owner: Resource) -> Key | None:
    """Return the key of the object's controller if that is of the kind, in whatever version of its group."""
    reference = controller_of(obj)
    if reference is None or reference.get("kind") != owner.kind:
        return None
    group, slash, _ = str(reference.get("apiVersion", "")).rpartition("/")
    if (group if slash else "") != owner.group:
        return None
    return (obj["metadata"].get("namespace", "") if owner.namespaced else "", str(reference["name"]))


def follow(objects: Informer, queue: Queue) -> None:
    """Have every change of an object put it into a queue; call it before the informers start."""
    objects.subscribe(lambda _, obj: queue.add(key_of(obj)))


def follow_children(children: Informer, owner: Resource, queue: Queue) -> None:
    """Have every change of a child put its owner into a queue; call it before the informers start."""

    def changed(_: str, obj: Json) -> None:
        key = owner_key(obj, owner)
        if key is not None:
            queue.add(key)

    children.subscribe(changed)
