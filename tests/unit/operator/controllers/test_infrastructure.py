"""What the infrastructure says of a Machine, and what is kept of it to know it again."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.client import ApiFailure
from harness.kube.resources import DATA_VOLUME, NETWORK_POLICY, POD, PVC, SECRET, Resource
from harness.kube.resources import VM as VM_KIND
from harness.machines.kubevirt.starting import Halt
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.sets import ZONE_LABEL
from harness.operator.controllers.infrastructure import (
    SET_LABEL,
    InfrastructureLook,
    InfrastructureReport,
    MachineMaking,
    hopeless,
    instance_of,
    key_object,
    machine_objects,
    missing,
    new_machines,
)
from harness.operator.controllers.machine_choice import Claimant
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.objects import KUBEVIRT
from tests.unit.operator.controllers.objects import CLAIM, UID, condition, machine

Json = dict[str, Any]
RAN = {"address": "10.1.0.5", "instance": "vmi-1", "disk": "pvc-1", "node": "node-a"}


def api_of(address: str = "10.1.0.5", claim: str = "pvc-1") -> FakeCluster:
    """Return an API with the claim of machine m-0, and the launchers of two of its instances."""
    pods = []
    for instance in ("vmi-1", "vmi-2"):
        labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": instance}
        meta = {"name": f"virt-launcher-{instance}", "namespace": "ns", "creationTimestamp": "2026", "labels": labels}
        pods.append({"metadata": meta, "status": {"podIP": address}})
    return FakeCluster({POD: pods, PVC: [{"metadata": {"name": "m-0", "namespace": "ns", "uid": claim}}]})


def vmi(uid: str = "vmi-1", phase: str = "Running", node: str = "node-a") -> Json:
    volumes = [{"name": "seed", "cloudInitNoCloud": {}}, {"name": "root", "dataVolume": {"name": "m-0"}}]
    meta = {"name": "m-0", "namespace": "ns", "uid": uid}
    return {"metadata": meta, "spec": {"volumes": volumes}, "status": {"phase": phase, "nodeName": node}}


VM = {"metadata": {"name": "m-0"}, "spec": {"runStrategy": "Always"}}


def look(
    api: FakeCluster, seen: Json | None, *, vm: Json | None = VM, held: bool = True, ran: Json | None = None
) -> InfrastructureReport:
    found = machine("m-0", through={"virtualMachineInstance": "m-0"})
    found["status"]["infrastructure"] = ran or {}
    return InfrastructureLook(api).report(found, vm, seen, held=held)


def test_what_runs_is_known_by_address_instance_disk_and_node() -> None:
    report = look(api_of(), vmi())
    assert (report.status, report.reason, report.infrastructure) == (True, "Running", RAN)


def test_a_second_address_of_the_launcher_is_the_machine_s() -> None:
    api = api_of()
    for pod in api.list(POD, "ns").items:
        pod["status"]["podIPs"] = [{"ip": "10.1.0.5"}, {"ip": "fd00:1::5"}]
        api.replace(POD, pod)
    report = look(api, vmi())
    assert report.infrastructure == {**RAN, "ipv6Address": "fd00:1::5"}
    assert look(api, vmi(), ran=report.infrastructure).infrastructure == report.infrastructure


def test_what_has_not_changed_costs_no_request() -> None:
    api = api_of()
    assert look(api, vmi(), ran=RAN).status is True
    assert api.asked == []


def test_a_restart_with_the_same_disk_is_the_same_machine() -> None:
    report = look(api_of(), vmi("vmi-2", node="node-b"), ran=RAN)
    assert (report.status, report.infrastructure) == (True, {**RAN, "instance": "vmi-2", "node": "node-b"})


def test_another_disk_is_another_machine_where_that_matters() -> None:
    report = look(api_of(claim="pvc-2"), vmi("vmi-2"), ran=RAN)
    assert (report.status, report.reason, report.warns) == (False, "Lost", True)
    assert "claim pvc-2 instead of pvc-1); its place in the cluster is given to another machine" in report.message
    free = look(api_of(claim="pvc-2", address="10.1.0.9"), vmi("vmi-2"), held=False, ran=RAN)
    assert free.infrastructure == {**RAN, "instance": "vmi-2", "disk": "pvc-2", "address": "10.1.0.9"}


def test_another_address_is_told_and_not_taken() -> None:
    report = look(api_of(address="10.1.0.9"), vmi("vmi-2"), ran=RAN)
    assert (report.status, report.reason, report.infrastructure) == (False, "AddressChanged", None)
    assert "10.1.0.9 instead of 10.1.0.5; delete the Machine" in report.message


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        ([{"ip": "10.1.0.5"}, {"ip": "fd00:1::9"}], "has the address fd00:1::9 instead of fd00:1::5"),
        ([{"ip": "10.1.0.5"}], "has no address instead of fd00:1::5"),
    ],
)
def test_another_address_of_the_second_family_is_told_and_not_taken_either(addresses: list[Json], words: str) -> None:
    api = api_of()
    for pod in api.list(POD, "ns").items:
        pod["status"]["podIPs"] = addresses
        api.replace(POD, pod)
    report = look(api, vmi("vmi-2"), ran={**RAN, "ipv6Address": "fd00:1::5"})
    assert (report.status, report.reason, report.infrastructure) == (False, "AddressChanged", None)
    assert words in report.message
    assert look(api, vmi("vmi-2"), held=False, ran={**RAN, "ipv6Address": "fd00:1::5"}).status is True


@pytest.mark.parametrize(
    ("address", "said"), [("", "has no address yet"), ("10.0.2.2", "masquerade gives every guest")]
)
def test_a_machine_without_an_address_that_others_reach_is_looked_at_again(address: str, said: str) -> None:
    report = look(api_of(address=address), vmi())
    assert (report.status, report.reason, report.settled, report.warns) == (False, "NoAddress", False, False)
    assert said in report.message


def test_a_machine_that_is_gone_is_lost_and_one_that_starts_again_is_not() -> None:
    assert look(api_of(), None, vm=None, ran=RAN).reason == "Lost"
    assert look(api_of(), None, ran=RAN).reason == "Starting"
    halted = {"metadata": {"name": "m-0"}, "spec": {"runStrategy": "Halted"}}
    stopped = look(api_of(), None, vm=halted, ran=RAN)
    assert (stopped.reason, stopped.warns) == ("Stopped", True)
    assert "virtctl start" in stopped.message


def test_a_machine_that_is_gone_stays_lost_when_no_cluster_has_it_any_more() -> None:
    released = look(api_of(), None, vm=None, held=False, ran=RAN)
    assert (released.status, released.reason) == (False, "Lost")
    assert released.message.endswith("are gone; make it again under the same name, or delete the Machine")
    never_seen = look(api_of(), None, vm=None, held=False)
    assert never_seen.reason == "Stopped"


def test_silence_is_unknown() -> None:
    report = InfrastructureReport.silent("403")
    assert (report.status, report.reason, report.warns) == (None, "KubeVirtUnreachable", False)


def test_which_machines_are_virtual_machines() -> None:
    assert instance_of(machine("m-0")) == ""
    assert instance_of(machine("m-0", through={"virtualMachineInstance": "vmi"})) == "vmi"
    assert instance_of(machine("m-0", kubevirt={"memory": "1Gi"})) == "m-0"


DEPLOYMENT = {
    "metadata": {"name": "one", "namespace": "ns", "uid": UID},
    "spec": {"network": {"dnsDomain": "guest.example"}},
}
VM_OF_ANOTHER = {"metadata": {"name": "m-0", "ownerReferences": [{"uid": "another", "controller": True}]}}


def imported(api: FakeCluster) -> Json:
    """Let the image be there; return it."""
    (image,) = (one for one in api.all(DATA_VOLUME) if one["metadata"]["name"].startswith("vmatrix-image-"))
    image["status"] = {"phase": "Succeeded"}
    return image


def kinds(api: FakeCluster) -> list[str]:
    return sorted(
        f"{one['kind']} {one['metadata']['name']}" for kind in (DATA_VOLUME, SECRET, VM_KIND) for one in api.all(kind)
    )


def stored(api: FakeCluster, kind: Resource, name: str) -> Json:
    found = api.get(kind, name, "ns")
    assert found is not None
    return found


def wanted(name: str = "m-0", key: str = "one-ssh") -> Json:
    found = machine(name, kubevirt=KUBEVIRT, claim=CLAIM, keyRef={"name": key, "key": "ssh-privatekey"})
    del found["spec"]["address"]
    return found


def made_of(api: FakeCluster, found: Json | None = None, vm: Json | None = None) -> Halt:
    halt = MachineMaking(api).look(found or wanted(), DEPLOYMENT, vm, None)
    assert halt is not None
    return halt


def test_an_image_is_imported_once_and_then_all_is_made_of_it() -> None:
    api = FakeCluster()
    assert made_of(api).reason == "ImportingImage"
    assert [one.split("-")[0] for one in kinds(api)] == ["DataVolume vmatrix", "Secret one"]
    assert made_of(api, wanted("m-1")).reason == "ImportingImage"
    assert len(kinds(api)) == 2
    image = imported(api)
    assert {one["name"] for one in image["metadata"]["ownerReferences"]} == {"m-0", "m-1"}
    assert not any(one.get("controller") for one in image["metadata"]["ownerReferences"])

    assert made_of(api).reason == "MakingDisk"
    assert {"DataVolume m-0", "Secret m-0-cloud-init", "VirtualMachine m-0"} <= set(kinds(api))
    for kind, name in ((DATA_VOLUME, "m-0"), (SECRET, "m-0-cloud-init"), (VM_KIND, "m-0")):
        assert stored(api, kind, name)["metadata"]["ownerReferences"][0]["uid"] == "uid-m-0"
    vm = stored(api, VM_KIND, "m-0")
    assert vm["spec"]["runStrategy"] == "Always"
    assert "cluster.vmatrix.dev/cluster" not in vm["spec"]["template"]["metadata"]["labels"], "as executors' pods have"
    assert "fqdn: m-0.guest.example" in stored(api, SECRET, "m-0-cloud-init")["stringData"]["userdata"]


def test_a_machine_of_an_isolated_cluster_starts_once_the_policy_selects_it() -> None:
    api = FakeCluster()
    made_of(api)
    imported(api)
    deployment: Json = {**DEPLOYMENT, "spec": {"network": {}, "isolation": {"enabled": True}}}

    def look() -> str:
        halt = MachineMaking(api).look(wanted(), deployment, None, None)
        assert halt is not None
        return str(halt.reason)

    def policy(*names: str) -> None:
        terms = [{"key": "vm.kubevirt.io/name", "operator": "In", "values": list(names)}]
        meta = {"name": "one-isolation", "namespace": "ns"}
        api.put(NETWORK_POLICY, {"metadata": meta, "spec": {"podSelector": {"matchExpressions": terms}}})

    assert look() == "WaitingForIsolation"
    assert "DataVolume m-0" in kinds(api), "its disk is made meanwhile"
    policy("m-1")
    assert look() == "WaitingForIsolation"
    assert "VirtualMachine m-0" not in kinds(api)
    policy("m-0", "m-1")
    assert look() == "MakingDisk"
    assert "VirtualMachine m-0" in kinds(api)


def test_the_key_of_a_cluster_is_made_once_and_that_of_a_person_is_not() -> None:
    api = FakeCluster()
    made_of(api)
    key = stored(api, SECRET, "one-ssh")["data"]
    made_of(api, wanted("m-1"))
    assert stored(api, SECRET, "one-ssh")["data"] == key
    halt = made_of(api, wanted(key="mine"))
    assert (halt.reason, "there is no Secret mine" in halt.message) == ("KeyMissing", True)


REFUSED = {
    "QuotaExceeded": ApiFailure(403, "Forbidden", "exceeded quota: small", [], request="POST"),
    "Refused": ApiFailure(404, "NotFound", "the server could not find the requested resource", [], request="POST"),
}


def refusing(failure: ApiFailure) -> FakeCluster:
    """Return an API that makes no disk."""
    api = FakeCluster()
    api.refusals["POST datavolumes"] = failure
    return api


@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_api_refuses_is_told(reason: str) -> None:
    halt = made_of(refusing(REFUSED[reason]))
    assert halt.reason == reason
    assert REFUSED[reason].message in halt.message


def test_an_api_in_trouble_is_asked_again() -> None:
    busy = ApiFailure(503, "Busy", "later", [], request="POST")
    with pytest.raises(ApiFailure):
        made_of(refusing(busy))


def test_an_object_of_somebody_else_is_left_alone() -> None:
    api = FakeCluster()
    made_of(api)
    imported(api)
    taken = {"metadata": {"name": "m-0-cloud-init", "namespace": "ns"}}
    taken = api.put(SECRET, taken)
    halt = made_of(api)
    assert (halt.reason, "Secret m-0-cloud-init is there" in halt.message) == ("NameTaken", True)
    assert stored(api, SECRET, "m-0-cloud-init") == taken
    assert made_of(api, vm=VM_OF_ANOTHER).reason == "NameTaken"


def test_a_machine_that_runs_is_not_halted() -> None:
    vm = {"metadata": {"name": "m-0", "ownerReferences": [{"uid": "uid-m-0", "controller": True}]}}
    running = {"status": {"phase": "Running"}}
    assert MachineMaking(FakeCluster()).look(wanted(), DEPLOYMENT, vm, running) is None


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


def test_machines_are_spread_over_the_domains_that_a_set_names() -> None:
    rack = "example.com/rack"
    racked = machine_set(5)
    racked["spec"]["failureDomains"] = {"topologyKey": rack, "policy": "Required", "domains": ["r-1", "r-2"]}
    first = made(1, 2, 3, of=racked)
    assert [one["metadata"]["labels"][rack] for one in first] == ["r-1", "r-2", "r-1"]
    assert first[1]["spec"]["kubevirt"]["nodeSelector"] == {"disk": "fast", rack: "r-2"}
    assert "spread" not in first[0]["spec"]["kubevirt"]
    assert hopeless(Claimant.of(racked), first, ()) == []


@pytest.mark.parametrize(
    ("policy", "field", "extra"),
    [
        ("Required", "affinity", {}),
        ("Preferred", "topologySpreadConstraints", {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}),
    ],
)
def test_kubevirt_spreads_machines_whose_domains_nobody_names(policy: str, field: str, extra: Json) -> None:
    over = machine_set()
    over["spec"]["failureDomains"] = {"topologyKey": "kubernetes.io/hostname", "policy": policy}
    (one,) = made(1, of=over)
    assert one["spec"]["kubevirt"]["spread"] == {"topologyKey": "kubernetes.io/hostname", "policy": policy}
    model = DeclaredMachine.model_validate(one)
    assert model.spec.kubevirt is not None
    _, _, vm = machine_objects(
        {**one, "metadata": {**one["metadata"], "uid": "u"}}, model, model.spec.kubevirt, "ssh", "d"
    )
    template = vm["spec"]["template"]
    term = {"labelSelector": {"matchLabels": {SET_LABEL: "one.w"}}, "topologyKey": "kubernetes.io/hostname", **extra}
    assert template["metadata"]["labels"][SET_LABEL] == "one.w"
    assert template["spec"][field] == (
        [term]
        if policy == "Preferred"
        else {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    )
    assert hopeless(Claimant.of(over), [one], ()) == []


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
