"""Services, processes and static pods that are not those of the role are found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch
from harness.validate.judge.manifests import wrong_manifests
from harness.validate.judge.node_services import failed_units, misplaced_processes, stopped_services, unhealthy_agents
from tests.unit.validate import guests
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only, put, second_process, without_process
from tests.unit.validate.guests import Change, Json


def units(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return failed_units(seen, wanted, {"allowed.service": "it may"})


def without_manifest(raw: Json) -> None:
    raw["manifests"].remove("etcd.yaml")


JUDGES: tuple[Judge, ...] = (
    stopped_services,
    units,
    misplaced_processes,
    wrong_manifests,
    unhealthy_agents,
)
FAULTS: list[tuple[Judge, Change]] = [
    (stopped_services, put("units/kubelet.service/ActiveState", "failed")),
    (stopped_services, put("units/containerd.service/UnitFileState", "disabled")),
    (stopped_services, put("units", {})),
    (stopped_services, put("units/api-endpoint.service/UnitFileState", "disabled")),
    (stopped_services, put("units/api-endpoint.service/ActiveState", "inactive")),
    (units, put("failed_units", ["other.service"])),
    (units, put("system_state", "offline")),
    (units, put("system_state", None)),
    (misplaced_processes, without_process("kube-scheduler")),
    (misplaced_processes, second_process("etcd")),
    (wrong_manifests, without_manifest),
    (wrong_manifests, lambda raw: raw["manifests"].append("extra.yaml")),
    (unhealthy_agents, lambda raw: raw["endpoints"].update(kubelet={"status": 0, "body": "refused"})),
    (
        unhealthy_agents,
        lambda raw: raw["endpoints"].update({"kube-proxy": {"status": 503, "body": "stale"}}),
    ),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


def test_a_control_plane_program_on_a_worker_is_found() -> None:
    server = next(p for p in guests.raw_facts("cp-0")["processes"] if p["name"] == "kube-apiserver")
    seen = guests.facts(lambda raw: raw["processes"].append(server), of="w-0")
    assert [f.where for f in misplaced_processes(seen, guests.expected())] == ["w-0 kube-apiserver"]


def test_an_allowed_unit_may_fail() -> None:
    assert units(guests.facts(put("failed_units", ["allowed.service"])), guests.expected()) == []


def test_an_external_etcd_is_expected_on_its_own_machines() -> None:
    wanted = guests.expected(groups=(("control_plane",), ("etcd",)))
    assert wanted.nodes == ("cp-0",)
    assert not wanted.stacked_etcd
    assert {f.where for f in misplaced_processes(guests.facts(), wanted)} == {"cp-0 etcd", "w-0 etcd"}


def test_the_unit_of_an_external_etcd_is_asked_for() -> None:
    wanted = guests.expected(groups=(("control_plane",), ("etcd",)))
    assert "w-0 etcd.service" in {f.where for f in stopped_services(guests.facts(), wanted)}
    shown = {"Id": "etcd.service", "LoadState": "loaded", "ActiveState": "active", "SubState": "running"}

    def enabled(state: str) -> Change:
        return lambda raw: raw["units"].update({"etcd.service": {**shown, "UnitFileState": state}})

    assert stopped_services(guests.facts(enabled("enabled"), of="w-0"), wanted) == []
    assert [f.where for f in stopped_services(guests.facts(enabled("disabled"), of="w-0"), wanted)] == [
        "w-0 etcd.service"
    ]
