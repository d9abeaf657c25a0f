"""Programs, units, flags and versions that are not those of the role and the cell are found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.topics.programs import (
    amended_units,
    failed_units,
    misplaced_processes,
    replaced_binaries,
    stopped_services,
    unhealthy_agents,
    wrong_binaries,
    wrong_flags,
    wrong_manifests,
)
from tests.unit.validate import foreign, guests
from tests.unit.validate.changes import (
    Judge,
    finds,
    passes_a_well_guest_only,
    put,
    replace_flag,
    second_process,
    without_process,
)
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.surrounded import setups


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


FLAG_JUDGES: tuple[Judge, ...] = (wrong_flags,)
FLAG_FAULTS: list[tuple[Judge, Change]] = [
    (
        wrong_flags,
        replace_flag("kube-apiserver", "--authorization-mode=Node,RBAC", "--authorization-mode=AlwaysAllow"),
    ),
    (
        wrong_flags,
        replace_flag("kube-controller-manager", "--cluster-cidr=10.243.0.0/16", "--cluster-cidr=10.0.0.0/8"),
    ),
    (wrong_flags, replace_flag("etcd", "--client-cert-auth=true", "--client-cert-auth=false")),
    (wrong_flags, without_process("kube-apiserver")),
]


@pytest.mark.parametrize("judge", FLAG_JUDGES)
def test_only_a_well_guests_flags_pass(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FLAG_FAULTS)
def test_a_fault_of_a_flag_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


def replaced_kubelet(raw: Json) -> None:
    for process in raw["processes"]:
        if process["name"] == "kubelet":
            process["executable"] += " (deleted)"


VERSION_JUDGES: tuple[Judge, ...] = (
    wrong_binaries,
    replaced_binaries,
)
VERSION_FAULTS: list[tuple[Judge, Change]] = [
    (wrong_binaries, put("versions/kubelet", "Kubernetes v1.35.4")),
    (wrong_binaries, put("versions/runc", None)),
    (wrong_binaries, put("cni_plugins/bridge", "CNI bridge plugin v1.1.1")),
    (wrong_binaries, put("cni_plugins", {})),
    (replaced_binaries, replaced_kubelet),
    (replaced_binaries, without_process("kubelet")),
    (replaced_binaries, second_process("containerd")),
]


@pytest.mark.parametrize("judge", VERSION_JUDGES)
def test_only_a_well_guests_versions_pass(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), VERSION_FAULTS)
def test_a_fault_of_a_version_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


EXPECTED = guests.expected()


def test_only_units_that_nobody_amends_pass() -> None:
    assert amended_units(setups(), EXPECTED) == []
    assert amended_units({}, EXPECTED)


def test_a_limit_of_kubelet_is_found() -> None:
    path = "/sys/fs/cgroup/system.slice/kubelet.service/cpu.max"
    (found,) = amended_units(setups(lambda raw: raw["limits"].append(["kubelet", path, "90000 100000"])), EXPECTED)
    assert str(found) == f"w-0 kubelet: expected no limit in {path}; saw 90000 100000"


def test_a_file_that_amends_a_unit_is_found() -> None:
    path = "/run/systemd/system/kubelet.service.d/x.conf"
    (found,) = amended_units(setups(lambda raw: raw["drop_ins"].update({"kubelet.service": [path]})), EXPECTED)
    assert path in str(found)


def test_units_are_not_judged_of_a_product_that_does_not_say_which_files_amend_them() -> None:
    (only,) = amended_units(setups(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(only, Unjudged)
