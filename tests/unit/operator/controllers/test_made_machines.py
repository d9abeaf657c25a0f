"""The Machines that a set has made: how many, where, under which names, and which are of no use any more."""

from __future__ import annotations

from typing import Any

from harness.operator.api.made import ZONE_LABEL
from harness.operator.controllers.machine_choice import Claimant
from harness.operator.controllers.made_machines import hopeless, key_object, missing, new_machines
from tests.unit.operator.controllers.objects import UID, condition

Json = dict[str, Any]
KUBEVIRT: Json = {
    "image": {"url": "http://m/debian.qcow2", "checksum": "sha256:" + "a" * 64},
    "cpus": 2,
    "memory": "2Gi",
    "disk": "20Gi",
    "nodeSelector": {"disk": "fast"},
}


def machine_set(replicas: int = 3, **more: Any) -> Json:
    owner = {"kind": "ClusterDeployment", "name": "one", "uid": UID, "controller": True}
    meta = {"name": "one-w", "namespace": "ns", "uid": "uid-set", "ownerReferences": [owner]}
    spec = {"name": "w", "roles": ["worker"], "replicas": replicas, "machines": {"kubevirt": {**KUBEVIRT, **more}}}
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
    assert one["spec"]["kubevirt"] == KUBEVIRT
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
