"""The add-ons of the playbooks, object by object."""

from __future__ import annotations

import re
from typing import Any, cast

import yaml

from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import DEPLOYMENT, Resource
from harness.operator.api.addons import BUILT_IN
from harness.operator.controllers.addon_built_in import OBJECTS, look_at
from harness.paths import packaged_dir

TEMPLATES = packaged_dir() / "playbooks" / "roles" / "addons" / "templates"
WORKS = {"conditions": [{"type": "Available", "status": "True"}], "replicas": 1, "updatedReplicas": 1}


def test_the_table_has_every_object_that_the_playbooks_make_but_namespaces() -> None:
    assert OBJECTS.keys() == set(BUILT_IN)
    for name, places in OBJECTS.items():
        text = (TEMPLATES / f"{name}.yml.j2").read_text(encoding="utf-8")
        plain = re.sub(r"\{%.*?%\}", "", re.sub(r"\{\{.*?\}\}", "x", text, flags=re.DOTALL), flags=re.DOTALL)
        made = [obj for obj in yaml.safe_load_all(plain) if obj and obj["kind"] != "Namespace"]
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
