"""What is told of an add-on with manifests."""

from __future__ import annotations

import json
from typing import Any, cast

import jinja2
import pytest
import yaml

from harness.kube.applyset import ApplySetLook
from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import DEPLOYMENT, Resource
from harness.operator.api.addons import BUILT_IN, AddonStatus, ClusterAddon
from harness.operator.controllers.addons import OBJECTS, WantedAddon, look_at, needed, source_digest, unknown
from harness.paths import packaged_dir

ADDON = ClusterAddon.model_validate({"name": "shop", "manifests": {"configMap": "shop"}})
OTHER = ClusterAddon.model_validate({"name": "shop", "manifests": {"configMap": "other"}})
OBJECT: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "web"}}
BEFORE = AddonStatus(name="shop", source="s", digest="d", objects=4, ready=True, reason="Ready")


@pytest.mark.parametrize(
    ("look", "ready", "reason", "words"),
    [
        (ApplySetLook(), True, "Ready", ""),
        (ApplySetLook(changed=["a"]), True, "Ready", ""),
        (ApplySetLook(waits=["a: b", "c: d"]), False, "NotReady", "a: b; c: d"),
        (ApplySetLook(left=["a"], waits=["b"]), False, "Pruning", "a"),
        (ApplySetLook(failures=["f"], left=["a"], waits=["b"]), False, "NotApplied", "f"),
        (ApplySetLook(failures=["f" * 2000]), False, "NotApplied", "f" * 1021 + "..."),
    ],
)
def test_the_worst_is_told(look: ApplySetLook, ready: bool, reason: str, words: str) -> None:
    told = WantedAddon("shop", ADDON, [OBJECT]).state(look, BEFORE)
    assert told is not None
    assert (told.ready, told.reason, told.message) == (ready, reason, words)
    assert (told.digest == "d") == (reason == "NotApplied")


def test_what_was_removed_is_told_until_nothing_is_left() -> None:
    gone = WantedAddon("shop")
    assert gone.state(ApplySetLook(), BEFORE) is None
    told = gone.state(ApplySetLook(left=["Service web/a"]), BEFORE)
    assert told is not None
    assert (told.reason, told.source) == ("Pruning", None)


def test_manifests_that_cannot_be_read_keep_what_was_applied() -> None:
    told = WantedAddon("shop", ADDON, None, "no such file").unread(BEFORE)
    assert (told.digest, told.objects, told.ready, told.reason) == ("d", 4, False, "NoManifests")
    assert told.source == source_digest(ADDON) != source_digest(OTHER)


def test_a_namespace_is_needed_by_what_lies_in_it_and_by_what_nobody_knows() -> None:
    one = WantedAddon("shop", ADDON, [OBJECT])
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}}
    assert needed([one], "web")
    assert needed([WantedAddon("b", ADDON, [space])], "own")
    assert needed([WantedAddon("b", ADDON, [{**OBJECT, "metadata": {"name": "a"}}])], "default")
    assert needed([WantedAddon("b", ADDON, None)], "any")
    assert not needed([one, WantedAddon("b")], "own")


def test_a_guest_that_does_not_answer_says_nothing_of_what_it_had() -> None:
    first, second = unknown({"shop": BEFORE}, ["shop", "new"], "no route")
    assert (first.digest, first.ready, first.reason, first.message) == ("d", None, "Unreachable", "no route")
    assert (second.name, second.ready) == ("new", None)


TEMPLATES = packaged_dir() / "playbooks" / "roles" / "addons" / "templates"
WORKS = {"conditions": [{"type": "Available", "status": "True"}], "replicas": 1, "updatedReplicas": 1}


def test_the_table_has_every_object_that_the_playbooks_make_but_namespaces() -> None:
    assert OBJECTS.keys() == set(BUILT_IN)
    for name, places in OBJECTS.items():
        text = (TEMPLATES / f"{name}.yml.j2").read_text(encoding="utf-8")
        environment = jinja2.Environment(undefined=jinja2.ChainableUndefined, trim_blocks=True, autoescape=False)  # noqa: S701
        environment.filters |= dict.fromkeys(
            ("to_json", "to_nice_json"), lambda value: json.dumps(value, default=str)
        ) | {"bool": bool}
        made = [obj for obj in yaml.safe_load_all(environment.from_string(text).render()) if obj]
        made = [obj for obj in made if obj["kind"] != "Namespace"]
        wanted = {(obj["kind"], dig(obj, "metadata", "namespace") or "", obj["metadata"]["name"]) for obj in made}
        assert {(kind.kind, namespace, one) for kind, namespace, one in places} == wanted


class Guest:
    """A guest that has all objects of an add-on but some."""

    def __init__(self, name: str, *lacking: tuple[Resource, str], **status: Any) -> None:
        self._has = {(kind, one) for kind, _, one in OBJECTS[name]} - {*lacking}
        self._status = {**WORKS, "availableReplicas": 1, **status}

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        body = kind.manifest(name, namespace or "", labels={}, status=self._status)
        return body if (kind, name) in self._has else None


def seen(guest: Guest) -> dict[str, Any]:
    return look_at(cast(Cluster, guest), "metrics-server", 7).model_dump(exclude_none=True)


def test_what_is_there_is_ready() -> None:
    assert seen(Guest("metrics-server")) == {"name": "metrics-server", "ready": True, "reason": "Ready", "message": ""}


def test_what_is_gone_is_told_with_the_operation_before() -> None:
    found = seen(Guest("metrics-server", (DEPLOYMENT, "metrics-server")))
    assert (found["ready"], found["reason"], found["sequence"]) == (False, "Missing", 7)
    assert found["message"] == "gone: Deployment kube-system/metrics-server"


def test_what_does_not_work_is_told_and_asks_for_nothing() -> None:
    found = seen(Guest("metrics-server", availableReplicas=0))
    assert (found["ready"], found["reason"]) == (False, "NotReady")
    assert "sequence" not in found
    assert found["message"] == "Deployment kube-system/metrics-server: 0 of 1 are available"
