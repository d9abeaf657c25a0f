"""What the infrastructure says of a Machine, and what is kept of it to know it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.kube.client import Cluster, Listing
from harness.kube.resources import POD, PVC, Resource
from harness.operator.controllers.infrastructure import InfrastructureLook, InfrastructureReport, instance_of
from tests.unit.operator.controllers.objects import machine

Json = dict[str, Any]
RAN = {"address": "10.1.0.5", "instance": "vmi-1", "disk": "pvc-1", "node": "node-a"}


@dataclass
class Api:
    """Answers with launchers and claims, and tells what it was asked for."""

    address: str = "10.1.0.5"
    claim: str = "pvc-1"
    asked: list[str] = field(default_factory=list)

    def list(self, resource: Resource, *_: object, **__: object) -> Listing:
        assert resource == POD
        self.asked.append("launcher")
        pod = {"metadata": {"creationTimestamp": "2026"}, "status": {"podIP": self.address}}
        return Listing([pod], "1")

    def get(self, resource: Resource, name: str, namespace: str) -> Json:
        assert (resource, name, namespace) == (PVC, "m-0", "ns")
        self.asked.append("claim")
        return {"metadata": {"uid": self.claim}}


def vmi(uid: str = "vmi-1", phase: str = "Running", node: str = "node-a") -> Json:
    volumes = [{"name": "seed", "cloudInitNoCloud": {}}, {"name": "root", "dataVolume": {"name": "m-0"}}]
    meta = {"name": "m-0", "namespace": "ns", "uid": uid}
    return {"metadata": meta, "spec": {"volumes": volumes}, "status": {"phase": phase, "nodeName": node}}


VM = {"metadata": {"name": "m-0"}, "spec": {"runStrategy": "Always"}}


def look(
    api: Api, seen: Json | None, *, vm: Json | None = VM, held: bool = True, ran: Json | None = None
) -> InfrastructureReport:
    found = machine("m-0", through={"virtualMachineInstance": "m-0"})
    found["status"]["infrastructure"] = ran or {}
    return InfrastructureLook(cast(Cluster, api)).report(found, vm, seen, held=held)


def test_what_runs_is_known_by_address_instance_disk_and_node() -> None:
    report = look(Api(), vmi())
    assert (report.status, report.reason, report.infrastructure) == (True, "Running", RAN)


def test_what_has_not_changed_costs_no_request() -> None:
    api = Api()
    assert look(api, vmi(), ran=RAN).status is True
    assert api.asked == []


def test_a_restart_with_the_same_disk_is_the_same_machine() -> None:
    report = look(Api(), vmi("vmi-2", node="node-b"), ran=RAN)
    assert (report.status, report.infrastructure) == (True, {**RAN, "instance": "vmi-2", "node": "node-b"})


def test_another_disk_is_another_machine_where_that_matters() -> None:
    report = look(Api(claim="pvc-2"), vmi("vmi-2"), ran=RAN)
    assert (report.status, report.reason, report.warns) == (False, "Lost", True)
    assert "claim pvc-2 instead of pvc-1); its place in the cluster is given to another machine" in report.message
    free = look(Api(claim="pvc-2", address="10.1.0.9"), vmi("vmi-2"), held=False, ran=RAN)
    assert free.infrastructure == {**RAN, "instance": "vmi-2", "disk": "pvc-2", "address": "10.1.0.9"}


def test_another_address_is_told_and_not_taken() -> None:
    report = look(Api(address="10.1.0.9"), vmi("vmi-2"), ran=RAN)
    assert (report.status, report.reason, report.infrastructure) == (False, "AddressChanged", None)
    assert "10.1.0.9 instead of 10.1.0.5; delete the Machine" in report.message


@pytest.mark.parametrize(
    ("address", "said"), [("", "has no address yet"), ("10.0.2.2", "masquerade gives every guest")]
)
def test_a_machine_without_an_address_that_others_reach_is_looked_at_again(address: str, said: str) -> None:
    report = look(Api(address=address), vmi())
    assert (report.status, report.reason, report.settled, report.warns) == (False, "NoAddress", False, False)
    assert said in report.message


def test_a_machine_that_is_gone_is_lost_and_one_that_starts_again_is_not() -> None:
    assert look(Api(), None, vm=None, ran=RAN).reason == "Lost"
    assert look(Api(), None, ran=RAN).reason == "Starting"
    halted = {"metadata": {"name": "m-0"}, "spec": {"runStrategy": "Halted"}}
    stopped = look(Api(), None, vm=halted, ran=RAN)
    assert (stopped.reason, stopped.warns) == ("Stopped", True)
    assert "virtctl start" in stopped.message


def test_a_machine_that_is_gone_stays_lost_when_no_cluster_has_it_any_more() -> None:
    released = look(Api(), None, vm=None, held=False, ran=RAN)
    assert (released.status, released.reason) == (False, "Lost")
    assert released.message.endswith("are gone; make it again under the same name, or delete the Machine")
    never_seen = look(Api(), None, vm=None, held=False)
    assert never_seen.reason == "Stopped"


def test_silence_is_unknown() -> None:
    report = InfrastructureReport.silent("403")
    assert (report.status, report.reason, report.warns) == (None, "KubeVirtUnreachable", False)


def test_which_machines_are_virtual_machines() -> None:
    assert instance_of(machine("m-0")) == ""
    assert instance_of(machine("m-0", through={"virtualMachineInstance": "vmi"})) == "vmi"
    assert instance_of(machine("m-0", kubevirt={"memory": "1Gi"})) == "m-0"
