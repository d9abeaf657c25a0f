"""A volume that serves two pods in turn and goes with its claim passes; each way of failing is a finding."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube import Cluster, Resource
from harness.kube.resources import NAMESPACE, POD, PV, PVC, SERVICE_ACCOUNT, STORAGE_CLASS
from harness.until import Deadline
from harness.validate.topics import storage
from tests.unit.validate.guests import NOWHERE, Json


class Provisioned(Cluster):
    """An API with a default storage class: pods end at once, what one writes another reads, volumes go with claims."""

    def __init__(self, *, phases: Json | None = None, read: str | None = None, stays: bool = False) -> None:
        super().__init__(NOWHERE)
        self.phases = {"writer": "Succeeded", "reader": "Succeeded", "claim": "Bound", **(phases or {})}
        self.read = read
        self.stays = stays
        self.there: dict[tuple[str, str], Json] = {}
        self.written = ""
        self.classes = [("local-path", "true"), ("other", "false")]

    def create(self, resource: Resource, body: Json, **_: Any) -> Json:
        name = body["metadata"]["name"]
        self.there[resource.kind, name] = body
        if resource is PVC:
            body["status"] = {"phase": self.phases["claim"]}
            body["spec"].update(storageClassName="local-path", volumeName="pv-1")
            self.there[PV.kind, "pv-1"] = {"status": {"phase": "Bound"}}
        if resource is POD:
            body["status"] = {"phase": self.phases[name]}
            script = body["spec"]["containers"][0]["command"][-1]
            self.written = script.split()[1] if script.startswith("echo") else self.written
        return body

    def get(self, resource: Resource, name: str, *_: Any, **__: Any) -> Json | None:
        return {"metadata": {}} if resource is SERVICE_ACCOUNT else self.there.get((resource.kind, name))

    def delete(self, resource: Resource, name: str, *_: Any, **__: Any) -> bool:
        if resource is PVC and not self.stays:
            self.there.pop((PV.kind, "pv-1"), None)
        return self.there.pop((resource.kind, name), None) is not None

    def list(self, resource: Resource, *_: Any, **__: Any) -> Any:
        assert resource is STORAGE_CLASS
        items = [{"metadata": {"name": n, "annotations": {storage.DEFAULT: v}}} for n, v in self.classes]
        return type("Listing", (), {"items": items})

    def pod_log(self, *_: Any, **__: Any) -> str:
        return f"{self.written if self.read is None else self.read}\n"

    def events_of(self, _: str, name: str) -> Any:
        return [f"Warning ProvisioningFailed: no such image ({name})"] if name == storage.CLAIM else []


def found(api: Provisioned, seconds: float = 5) -> list[str]:
    return [str(f) for f in storage.lost_writes(api, image="busybox", token="t1", deadline=Deadline.after(seconds))]


def test_a_volume_that_keeps_what_was_written_passes_and_leaves_only_a_namespace() -> None:
    api = Provisioned()
    assert found(api) == []
    storage.remove(api)
    assert api.there == {}


def test_what_an_earlier_run_left_is_taken_away_first() -> None:
    api = Provisioned()
    api.create(NAMESPACE, {"metadata": {"name": storage.NAME}, "left": True})
    assert found(api) == []
    assert "left" not in api.there[NAMESPACE.kind, storage.NAME]


@pytest.mark.parametrize(
    ("api", "said"),
    [
        (Provisioned(read=""), "pod reader: expected to read what another pod wrote: 't1'; saw ''"),
        (Provisioned(read="t0"), "saw 't0'"),
        (Provisioned(phases={"writer": "Failed"}), "pod writer: expected after `echo t1 >/kept/token && sync`"),
        (Provisioned(phases={"reader": "Failed"}), "pod reader: expected after `cat /kept/token`"),
        (Provisioned(phases={"claim": "Pending"}), "claim kept: expected phase 'Bound'; saw 'Pending'"),
    ],
)
def test_a_volume_that_loses_what_was_written_is_found(api: Provisioned, said: str) -> None:
    assert any(said in finding for finding in found(api))


@pytest.mark.parametrize(
    ("api", "said"),
    [
        (
            Provisioned(phases={"writer": "Pending"}),
            "pod writer to run `echo t1 >/kept/token && sync`: its phase",
        ),
        (Provisioned(stays=True), "PersistentVolume pv-1 to be gone: its phase is Bound"),
    ],
)
def test_what_does_not_come_in_time_is_found_with_the_events(api: Provisioned, said: str) -> None:
    (finding,) = found(api, seconds=0)
    assert said in finding
    assert "no such image (kept)" in finding


@pytest.mark.parametrize("classes", [[], [("a", "true"), ("b", "true")]])
def test_none_or_several_default_classes_are_found(classes: list[tuple[str, str]]) -> None:
    api = Provisioned()
    assert storage.wrong_default_class(api) == []
    api.classes = classes
    assert len(storage.wrong_default_class(api)) == 1
