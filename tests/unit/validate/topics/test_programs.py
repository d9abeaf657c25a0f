"""Programs, units, flags and versions that are not those of the role and the cell are found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, Unjudged, real
from harness.validate.topics.programs import (
    LIMITS,
    MOST_RESTARTS,
    amended_units,
    failed_units,
    limited_processes,
    misplaced_processes,
    other_units,
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


WANTED, UNSAID = guests.expected(), guests.expected(leaves=foreign.UNSAID)
SETTINGS = [
    (unit, key) for unit in ("kubelet.service", "containerd.service") for key in (guests.OURS.unit_settings or {})[unit]
]


def unit_setting(unit: str, key: str, value: str | None) -> Change:
    def change(raw: Json) -> None:
        settings = raw["units"][unit]["settings"]
        settings.pop(key, None)
        settings |= {key: value} if value is not None else {}

    return change


def test_only_units_and_processes_of_a_well_guest_pass() -> None:
    for judge in (other_units, limited_processes):
        assert judge(setups(), WANTED) == []
        assert judge({}, WANTED)
        assert real(judge(setups(), UNSAID)) == []


@pytest.mark.parametrize(("unit", "key"), SETTINGS)
def test_each_setting_of_a_unit_is_the_products(unit: str, key: str) -> None:
    (other,) = other_units(setups(unit_setting(unit, key, "other")), WANTED)
    assert f"w-0 {unit}: expected {key}=" in str(other)
    assert str(other).endswith("saw other")
    (usual,) = other_units(setups(unit_setting(unit, key, None)), WANTED)
    assert str(usual).endswith("saw systemd's default")


@pytest.mark.parametrize(
    "key", ["ProtectSystem", "PrivateTmp", "MemoryMax", "CPUQuotaPerSecUSec", "ExecStartPre", "User"]
)
def test_a_setting_that_nobody_asked_for_is_found(key: str) -> None:
    (found,) = other_units(setups(unit_setting("kubelet.service", key, "x")), WANTED)
    assert str(found) == f"w-0 kubelet.service: expected {key}: systemd's default; saw x"
    assert real(other_units(setups(unit_setting("kubelet.service", key, "x")), UNSAID)) == []


def test_units_that_do_not_stay_up_or_were_not_read_are_found() -> None:
    (often,) = other_units(setups(put("units/kubelet.service/restarts", MOST_RESTARTS + 1)), WANTED)
    assert "saw 4 restarts by systemd" in str(often)
    assert other_units(setups(put("units/kubelet.service/restarts", MOST_RESTARTS)), WANTED) == []
    (unread,) = other_units(setups(put("units/kubelet.service/reload", True)), WANTED)
    assert "w-0 kubelet.service: expected a unit that systemd has read" in str(unread)
    assert real(other_units(setups(put("units/kubelet.service/restarts", 9)), UNSAID))


PROCESS = "processes/seen/901"  # containerd's


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put(f"{PROCESS}/oom", 500), "oom_score_adj 0 or less"),
        (put(f"{PROCESS}/nice", 10), "expected niceness 0; saw 10"),
        (put(f"{PROCESS}/state", "T"), "it is stopped (SIGSTOP)"),
        (put(f"{PROCESS}/cpus", "0"), "expected processors 0-1, those of the machine; saw 0"),
        (
            put(f"{PROCESS}/limits/open files", ["2000", "2000"]),
            "open files: expected the unit's limit 1048576; saw 2000",
        ),
        (put(f"{PROCESS}/limits/open files", ["2000", "20000"]), "saw 2000 (soft)"),
        (put(f"{PROCESS}/limits/processes", ["50", "50"]), "processes: expected the unit's limit infinity; saw 50"),
    ],
)
def test_what_limits_a_process_is_found(change: Change, words: str) -> None:
    (found,) = limited_processes(setups(change), WANTED)
    assert str(found).startswith("w-0 containerd.service")
    assert words in str(found)


@pytest.mark.parametrize("key", [*LIMITS])
def test_each_limit_is_that_of_the_unit(key: str) -> None:
    def change(raw: Json) -> None:
        raw["units"]["kubelet.service"]["limits"] |= {key: "5000", f"{key}Soft": "4000"}
        for pid, soft in (("900", "77"), ("1", "unlimited")):
            raw["processes"]["seen"][pid]["limits"][LIMITS[key]] = [soft, soft]
        raw["processes"]["seen"]["900"]["limits"].setdefault("open files", ["1024", "1024"])

    found = [str(one) for one in limited_processes(setups(change), WANTED)]
    assert f"w-0 kubelet.service {LIMITS[key]}: expected the unit's limit 5000; saw 77" in found
