"""What the process does while its API server is still starting, and what only when that is ready."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.embedded import process
from harness.embedded.crds import crds
from harness.embedded.node import registration
from harness.embedded.process import READY, SERVING, Options
from harness.kube.client import Cluster, Json
from harness.kube.resources import CRD, Resource


class Registered(Exception):
    """The Node is registered: the test needs no more."""


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what a process does up to the registration of its Node, in its order."""
    done: list[str] = []

    def register(*_: Any) -> None:
        done.append("register")
        raise Registered

    cluster = SimpleNamespace(request=lambda _verb, path, **_: done.append(path))
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: cluster)
    monkeypatch.setattr(process, "_serve_webhooks", lambda *_: SimpleNamespace(shutdown=lambda: None))
    monkeypatch.setattr(process, "install", lambda *_, **__: done.append("install"))
    monkeypatch.setattr(registration, "register", register)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    (tmp_path / "ca.crt").touch()
    with pytest.raises(Registered):
        process.run(Options(Path("kubeconfig"), tmp_path, 0, ("node",), "10.213.0.1", 1, tmp_path, ("10.213.0.1", 2)))
    return done


def test_definitions_are_installed_before_the_api_server_has_written_its_roles(order: list[str]) -> None:
    assert order == [SERVING, "install", READY, "register"]


def test_everything_but_roles_and_priorities_is_there_before_definitions_are_installed() -> None:
    left_out = SERVING.removeprefix(f"{READY}?").split("&")
    assert left_out == [
        "exclude=poststarthook/rbac/bootstrap-roles",
        "exclude=poststarthook/scheduling/bootstrap-system-priority-classes",
    ]


class Recorded:
    """An API server without objects: it remembers what is written, and definitions are established at once."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.objects: dict[tuple[str, str], Json] = {}

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        return self.objects.get((resource.kind, name))

    def create(self, resource: Resource, body: Json) -> Json:
        return self._write("create", resource, body["metadata"]["name"], body)

    def apply(self, resource: Resource, body: Json) -> Json:
        return self._write("apply", resource, body["metadata"]["name"], body)

    def merge(self, resource: Resource, name: str, patch: Json, namespace: str | None = None, **_: Any) -> Json:
        return self._write("merge", resource, name, {**self.objects[resource.kind, name], **patch})

    def _write(self, verb: str, resource: Resource, name: str, body: Json) -> Json:
        self.calls.append((verb, resource.kind, name))
        status = {"conditions": [{"type": "Established", "status": "True"}]} if resource == CRD else {}
        self.objects[resource.kind, name] = {**body, "status": {**(body.get("status") or {}), **status}}
        return self.objects[resource.kind, name]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    cluster = Recorded()
    monkeypatch.setattr(process, "own_name", lambda _: "vmatrix")
    process.install(cast(Cluster, cluster), ca_bundle=b"", webhook_url="https://10.213.0.1:8443")
    return cluster


def test_objects_of_new_definitions_are_applied_because_creating_them_takes_seconds(installed: Recorded) -> None:
    defined = {body["spec"]["names"]["kind"] for body in crds()}
    made = {kind for verb, kind, _ in installed.calls if verb != "merge" and kind in defined}
    assert made == {"KubeVirt", "CDI", "CDIConfig", "StorageProfile"}
    assert not [call for call in installed.calls if call[0] == "create" and call[1] in defined]
    assert not [call for call in installed.calls if call[0] == "apply" and call[1] not in defined]


def test_no_object_of_a_definition_is_made_before_the_definitions(installed: Recorded) -> None:
    kinds = [kind for _, kind, _ in installed.calls]
    assert max(n for n, kind in enumerate(kinds) if kind == CRD.kind) < kinds.index("KubeVirt")


def test_a_second_installation_writes_nothing_of_what_stays(
    installed: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.calls.clear()
    monkeypatch.setattr(process, "own_name", lambda _: "vmatrix")
    process.install(cast(Cluster, installed), ca_bundle=b"", webhook_url="https://10.213.0.1:8443")
    assert not [call for call in installed.calls if call[0] != "merge"]
