"""What is made of a Machine at each look, and what it says while it waits or cannot go on."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.kube.client import ApiFailure, Cluster, Listing
from harness.kube.resources import Resource
from harness.machines.kubevirt.stages import Halt
from harness.operator.controllers.machine_making import MachineMaking
from tests.unit.operator.controllers.objects import CLAIM, UID, machine

Json = dict[str, Any]
KUBEVIRT = {"image": {"url": "http://m/x", "checksum": "sha256:" + "a" * 64}, "memory": "1Gi", "disk": "9Gi"}
DEPLOYMENT = {
    "metadata": {"name": "one", "namespace": "ns", "uid": UID},
    "spec": {"network": {"dnsDomain": "guest.example"}},
}
VM_OF_ANOTHER = {"metadata": {"name": "m-0", "ownerReferences": [{"uid": "another", "controller": True}]}}


@dataclass
class Api:
    """Keeps what is made, and refuses kinds that a test names."""

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    refusals: dict[str, ApiFailure] = field(default_factory=dict)

    def get(self, resource: Resource, name: str, _namespace: str) -> Json | None:
        return self.objects.get((resource.kind, name))

    def list(self, *_: object, **__: object) -> Listing:
        return Listing([], "1")

    def create_if_absent(self, resource: Resource, body: Json) -> bool:
        if resource.kind in self.refusals:
            raise self.refusals[resource.kind]
        key = (resource.kind, body["metadata"]["name"])
        if key in self.objects:
            return False
        uid = {"uid": f"uid-{key[1]}", "creationTimestamp": "2126-01-01T00:00:00Z", "resourceVersion": "1"}
        self.objects[key] = {**body, "metadata": {**body["metadata"], **uid}}
        if "stringData" in body:
            data = {name: base64.b64encode(text.encode()).decode() for name, text in body["stringData"].items()}
            self.objects[key]["data"] = data
        return True

    def ensure(self, resource: Resource, body: Json) -> Json:
        self.create_if_absent(resource, body)
        return self.objects[resource.kind, body["metadata"]["name"]]

    def merge(self, resource: Resource, name: str, patch: Json, _namespace: str) -> Json:
        self.objects[resource.kind, name]["metadata"] |= patch["metadata"]
        return self.objects[resource.kind, name]

    def imported(self) -> Json:
        """Let the image be there; return it."""
        (image,) = (one for (kind, name), one in self.objects.items() if name.startswith("vmatrix-image-"))
        image["status"] = {"phase": "Succeeded"}
        return image


def kinds(api: Api) -> list[str]:
    return sorted(f"{kind} {name}" for kind, name in api.objects)


def wanted(name: str = "m-0", key: str = "one-ssh") -> Json:
    found = machine(name, kubevirt=KUBEVIRT, claim=CLAIM, keyRef={"name": key, "key": "ssh-privatekey"})
    del found["spec"]["address"]
    return found


def look(api: Api, found: Json | None = None, vm: Json | None = None) -> Halt:
    halt = MachineMaking(cast(Cluster, api)).look(found or wanted(), DEPLOYMENT, vm, None)
    assert halt is not None
    return halt


def test_an_image_is_imported_once_and_then_all_is_made_of_it() -> None:
    api = Api()
    assert look(api).reason == "ImportingImage"
    assert [one.split("-")[0] for one in kinds(api)] == ["DataVolume vmatrix", "Secret one"]
    assert look(api, wanted("m-1")).reason == "ImportingImage"
    assert len(api.objects) == 2
    image = api.imported()
    assert {one["name"] for one in image["metadata"]["ownerReferences"]} == {"m-0", "m-1"}
    assert not any(one.get("controller") for one in image["metadata"]["ownerReferences"])

    assert look(api).reason == "MakingDisk"
    assert {"DataVolume m-0", "Secret m-0-cloud-init", "VirtualMachine m-0"} <= set(kinds(api))
    for kind, name in (("DataVolume", "m-0"), ("Secret", "m-0-cloud-init"), ("VirtualMachine", "m-0")):
        assert api.objects[kind, name]["metadata"]["ownerReferences"][0]["uid"] == "uid-m-0"
    vm = api.objects["VirtualMachine", "m-0"]
    assert vm["spec"]["runStrategy"] == "Always"
    assert "cluster.vmatrix.dev/cluster" not in vm["spec"]["template"]["metadata"]["labels"], "as executors' pods have"
    assert "fqdn: m-0.guest.example" in api.objects["Secret", "m-0-cloud-init"]["stringData"]["userdata"]


def test_the_key_of_a_cluster_is_made_once_and_that_of_a_person_is_not() -> None:
    api = Api()
    look(api)
    key = api.objects["Secret", "one-ssh"]["data"]
    look(api, wanted("m-1"))
    assert api.objects["Secret", "one-ssh"]["data"] == key
    halt = look(api, wanted(key="mine"))
    assert (halt.reason, "there is no Secret mine" in halt.message) == ("KeyMissing", True)


REFUSED = {
    "QuotaExceeded": ApiFailure(403, "Forbidden", "exceeded quota: small", [], request="POST"),
    "Refused": ApiFailure(404, "NotFound", "the server could not find the requested resource", [], request="POST"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_api_refuses_is_told(reason: str) -> None:
    halt = look(Api(refusals={"DataVolume": REFUSED[reason]}))
    assert halt.reason == reason
    assert REFUSED[reason].message in halt.message


def test_an_api_in_trouble_is_asked_again() -> None:
    busy = ApiFailure(503, "Busy", "later", [], request="POST")
    with pytest.raises(ApiFailure):
        look(Api(refusals={"DataVolume": busy}))


def test_an_object_of_somebody_else_is_left_alone() -> None:
    api = Api()
    look(api)
    api.imported()
    taken = {"metadata": {"name": "m-0-cloud-init", "namespace": "ns"}}
    api.objects["Secret", "m-0-cloud-init"] = taken
    halt = look(api)
    assert (halt.reason, "Secret m-0-cloud-init is there" in halt.message) == ("NameTaken", True)
    assert api.objects["Secret", "m-0-cloud-init"] is taken
    assert look(api, vm=VM_OF_ANOTHER).reason == "NameTaken"


def test_a_machine_that_runs_is_not_halted() -> None:
    vm = {"metadata": {"name": "m-0", "ownerReferences": [{"uid": "uid-m-0", "controller": True}]}}
    running = {"status": {"phase": "Running"}}
    assert MachineMaking(cast(Cluster, Api())).look(wanted(), DEPLOYMENT, vm, running) is None
