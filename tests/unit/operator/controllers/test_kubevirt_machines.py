"""What is made of a Machine at each look, and what it says while it waits or cannot go on."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.kube.client import ApiFailure, Cluster, Listing
from harness.kube.resources import Resource
from harness.machines.kubevirt.starting import Halt
from harness.operator.api.made import ZONE_LABEL
from harness.operator.controllers.kubevirt_machines import MachineMaking, hopeless, key_object, missing, new_machines
from harness.operator.controllers.machine_choice import Claimant
from tests.unit.operator.controllers.objects import CLAIM, UID, condition, machine

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


KUBEVIRT_SET: Json = {
    "image": {"url": "http://m/debian.qcow2", "checksum": "sha256:" + "a" * 64},
    "cpus": 2,
    "memory": "2Gi",
    "disk": "20Gi",
    "nodeSelector": {"disk": "fast"},
}


def machine_set(replicas: int = 3, **more: Any) -> Json:
    owner = {"kind": "ClusterDeployment", "name": "one", "uid": UID, "controller": True}
    meta = {"name": "one-w", "namespace": "ns", "uid": "uid-set", "ownerReferences": [owner]}
    spec = {"name": "w", "roles": ["worker"], "replicas": replicas, "machines": {"kubevirt": {**KUBEVIRT_SET, **more}}}
    return {"metadata": meta, "spec": spec}


def made(*numbers: int, of: Json | None = None, machines: tuple[Json, ...] = ()) -> list[Json]:
    found = new_machines(of or machine_set(), numbers, machines)
    for one in found:
        one["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return found


def lost(machine: Json) -> Json:
    return {**machine, "status": {"conditions": [condition("InfrastructureReady", "False", "Lost")]}}


def going(machine: Json) -> Json:
    return {**machine, "metadata": {**machine["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def test_a_new_machine_is_its_set_s_from_the_start() -> None:
    (one,) = made(7)
    assert one["metadata"]["name"] == "one-w-7"
    assert one["metadata"]["ownerReferences"][0]["uid"] == "uid-set"
    assert one["spec"]["claim"] == {"cluster": "one", "set": "w", "uid": UID}
    assert one["spec"]["user"] == "vmatrix"
    assert one["spec"]["through"] == {"virtualMachineInstance": "one-w-7"}
    assert one["spec"]["keyRef"]["name"] == "one-ssh"
    assert one["spec"]["kubevirt"] == KUBEVIRT_SET
    assert Claimant.of(machine_set()).has(one)


def test_machines_that_are_to_go_are_missing_already() -> None:
    one, two, three = made(1, 2, 3)
    claimant = Claimant.of(machine_set())
    assert missing(claimant, [one, two, three]) == 0
    assert missing(claimant, [one, going(two), lost(three)]) == 2
    replaced = {**one, "metadata": {**one["metadata"], "annotations": {"cluster.vmatrix.dev/replace": "it is slow"}}}
    assert missing(claimant, [replaced, two, three]) == 1


def test_machines_are_spread_over_zones() -> None:
    zoned = machine_set(5, zones=["a", "b"])
    first = made(1, 2, 3, of=zoned)
    assert [one["metadata"]["labels"][ZONE_LABEL] for one in first] == ["a", "b", "a"]
    assert first[1]["spec"]["kubevirt"]["nodeSelector"] == {"disk": "fast", ZONE_LABEL: "b"}
    left = (first[0], going(first[1]), first[2])
    assert [one["metadata"]["labels"][ZONE_LABEL] for one in made(4, 5, of=zoned, machines=left)] == ["b", "b"]


def test_lost_machines_and_those_of_an_older_wish_that_never_ran_are_hopeless() -> None:
    one, two, three = made(1, 2, 3)
    ran = {**three, "status": {"infrastructure": {"instance": "u"}}}
    claimant = Claimant.of(machine_set(memory="4Gi"))
    found = {m["metadata"]["name"]: why for m, why in hopeless(claimant, [lost(one), two, ran], ())}
    assert found == {
        "one-w-1": "it is lost",
        "one-w-2": "its set asks for other machines since, and it never ran",
    }
    assert hopeless(claimant, [two], {"one-w-2"}) == []
    assert hopeless(Claimant.of(machine_set(zones=["a"])), made(1, of=machine_set(zones=["a"])), ()) == []


def test_the_key_goes_with_the_clusterdeployment() -> None:
    secret = key_object({"metadata": {"name": "one", "namespace": "ns", "uid": UID}})
    assert secret["metadata"]["ownerReferences"][0]["uid"] == UID
    assert secret["stringData"]["ssh-privatekey"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
