"""An instance's phase and conditions, given its pod."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.embedded.node import pods
from harness.embedded.vmi.status import (
    PAUSED,
    UNPAUSED,
    SyncError,
    Unbootable,
    add_placement,
    cloud_init_documents,
    disk_file,
    next_status,
    root_volume,
    unpaused_condition,
    volumes_problem,
    with_migratable,
)
from harness.kube.objects import condition
from tests.unit.embedded.recording import RECORDED_AT, Json, untimed, versions, without_nulls
from tests.unit.embedded.vmi.samples import pod, vmi

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
DELETED = {"deletionTimestamp": "2026-11-21T10:00:00Z"}


@pytest.mark.parametrize(
    ("before", "launcher", "after"),
    [
        ("Pending", None, "Pending"),
        ("Pending", pod(), "Scheduling"),
        ("Scheduling", pod(node="n0"), "Scheduling"),
        ("Scheduling", pod("Running", node="n0", ready=False), "Scheduling"),
        ("Scheduling", pod("Running", node="n0"), "Scheduled"),
        ("Scheduling", None, "Failed"),
        ("Scheduled", None, "Failed"),
        ("Running", None, "Failed"),
        ("Running", pod("Failed", node="n0"), "Failed"),
        ("Running", pod("Running", node="n0"), "Running"),
        ("Succeeded", None, "Succeeded"),
        ("Failed", pod("Running", node="n0"), "Failed"),
    ],
)
def test_phase_after(before: str, launcher: Json | None, after: str) -> None:
    assert next_status(vmi(before), launcher, NOW, None)["phase"] == after


def test_instance_deleted_before_it_had_a_pod_fails() -> None:
    going = vmi("Pending")
    going["metadata"] |= DELETED
    assert next_status(going, None, NOW, None)["phase"] == "Failed"


def instance_steps() -> Iterator[tuple[str, Json, Json | None, Json]]:
    """Yield (name, instance, pod, recorded next instance) for each step that is the controller's own."""
    vmi, pod = versions("vmi"), versions("pod")
    yield "Pending to Scheduling", vmi[1], pod[0], vmi[2]
    yield "bound", vmi[2], pod[2], vmi[3]
    yield "Running to Ready", vmi[6], pod[4], vmi[7]
    yield "pod terminating", vmi[8], pod[5], vmi[9]
    yield "shut down", vmi[10], pod[5], vmi[10]
    yield "pod ended", vmi[11], pod[6], vmi[11]


@pytest.mark.parametrize("number", range(6))
def test_instance_status_follows_the_recording(number: int) -> None:
    name, before, pod, after = list(instance_steps())[number]
    filled = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    status = without_nulls(untimed(next_status(before, pod, RECORDED_AT, None, [filled])))
    expected = without_nulls(untimed(after["status"]))
    # The recording's script forgot the pod's interface name for one update.
    for side in (status, expected):
        for interface in side.get("interfaces") or []:
            interface.pop("podInterfaceName", None)
    assert status == expected, name


def test_scheduled_instance_has_its_place_as_recorded() -> None:
    before, pod, after = versions("vmi")[3], versions("pod")[3], versions("vmi")[4]
    claim = {
        "metadata": {"name": "cp-0-root"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}},
        "status": {"capacity": {"storage": "4Gi"}},
    }
    status = next_status(before, pod, RECORDED_AT, None)
    add_placement(status, before, pod, {"cp-0-root": claim})
    assert untimed(status) == untimed(after["status"])


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_paused_machines_pod_is_not_ready() -> None:
    pod = {"status": {"conditions": [{"type": UNPAUSED, "status": "True"}, {"type": "Ready", "status": "True"}]}}
    paused = {"status": {"conditions": [{"type": PAUSED, "status": "True"}]}}
    assert unpaused_condition({}, pod, MOMENT) is None
    assert pods.ready_by_gate(pod, UNPAUSED) is None

    closed = unpaused_condition(paused, pod, MOMENT)
    assert closed is not None
    assert (closed[0]["status"], closed[0]["reason"]) == ("False", "Paused")
    pod["status"]["conditions"][0] = closed[0]
    ready = pods.ready_by_gate(pod, UNPAUSED)
    assert ready is not None
    assert (ready[0]["status"], ready[0]["reason"]) == ("False", "ReadinessGatesNotReady")


def test_unschedulable_pod_shows_and_goes_again() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}
    shown = next_status(vmi("Scheduling"), pod(conditions=[refused]), NOW, None)
    assert condition({"status": shown}, "PodScheduled") == refused
    placed = {"type": "PodScheduled", "status": "True"}
    after = {**vmi("Scheduling"), "status": shown}
    assert (
        condition({"status": next_status(after, pod(node="n0", conditions=[placed]), NOW, None)}, "PodScheduled")
        is None
    )


def test_message_of_an_unschedulable_pod_is_not_refreshed() -> None:
    old = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "first"}
    new = {**old, "message": "second"}
    status = next_status(vmi("Scheduling", conditions=[old]), pod(conditions=[new]), NOW, None)
    shown = condition({"status": status}, "PodScheduled")
    assert shown is not None
    assert shown["message"] == "first"


def test_sync_error_shows_and_goes_again() -> None:
    shown = next_status(vmi(), None, NOW, SyncError("FailedPvcNotFound", "PVC a/b does not exist"))
    found = condition({"status": shown}, "Synchronized")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "FailedPvcNotFound")
    assert condition({"status": next_status({**vmi(), "status": shown}, pod(), NOW, None)}, "Synchronized") is None


def filled(*states: str) -> list[Json]:
    return [{"status": {"conditions": [{"type": "Ready", "status": state}]}} for state in states]


@pytest.mark.parametrize(
    ("data_volumes", "said"),
    [
        (filled("True", "True"), "True/AllDVsReady"),
        (filled("True", "False", "Unknown"), "False/NotAllDVsReady"),
        ([*filled("True"), {"status": {}}], "Unknown/NotAllDVsReady"),
        ([], "none"),
    ],
)
def test_an_instance_says_whether_its_data_volumes_are_ready(data_volumes: list[Json], said: str) -> None:
    status = next_status(vmi("Pending"), None, NOW, None, data_volumes)
    found = condition({"status": status}, "DataVolumesReady")
    assert (f"{found['status']}/{found['reason']}" if found else "none") == said


def test_an_instance_that_waits_for_its_volumes_has_no_pod() -> None:
    status = next_status(vmi("Pending"), None, NOW, None, filled("False"))
    ready = condition({"status": status}, "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "PodNotExists")


def test_a_bridged_machine_says_what_was_recorded() -> None:
    scheduled, asked = versions("vmi")[4:6]
    assert with_migratable(scheduled) == asked["status"]["conditions"]


def machine(binding: str) -> Json:
    return {"spec": {"domain": {"devices": {"interfaces": [{"name": "default", binding: {}}]}}}}


def judged(vmi: Json) -> tuple[str, str, str]:
    found = {"status": {"conditions": with_migratable(vmi)}}
    live, storage = condition(found, "LiveMigratable"), condition(found, "StorageLiveMigratable")
    assert live is not None
    assert storage is not None
    return str(live.get("reason", live["status"])), str(live.get("message", "")), str(storage.get("reason", "True"))


@pytest.mark.parametrize(
    ("vmi", "live", "said", "storage"),
    [
        (machine("bridge"), "InterfaceNotLiveMigratable", "does not use masquerade", "NotMigratable"),
        (machine("masquerade"), "DisksNotLiveMigratable", "all PVCs must be shared", "True"),
    ],
)
def test_what_keeps_a_machine_where_it_is(vmi: Json, live: str, said: str, storage: str) -> None:
    reason, message, of_storage = judged(vmi)
    assert (reason, of_storage) == (live, storage)
    assert said in message


ROOT = {"name": "root", "dataVolume": {"name": "cp-0-root"}}
SEED = {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "cp-0-seed"}}}


def test_missing_claim_is_said() -> None:
    problem = volumes_problem(vmi(volumes=[ROOT]), lambda _: None, lambda _: None)
    assert isinstance(problem, SyncError)
    assert problem.message == "PVC cell-a/cp-0-root does not exist, waiting for it to appear"


@pytest.mark.parametrize(("phase", "usable"), [("Succeeded", True), ("ImportInProgress", False), ("Failed", False)])
def test_claim_being_filled_is_waited_for(phase: str, usable: bool) -> None:
    claim = {"metadata": {"name": "cp-0-root"}}
    assert volumes_problem(vmi(volumes=[ROOT]), lambda _: claim, lambda _: {"status": {"phase": phase}}) is usable


def test_claim_volume_waits_for_the_data_volume_that_fills_it() -> None:
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "x"}}
    owner = {"kind": "DataVolume", "name": "other", "uid": "u", "controller": True}
    claim = {"metadata": {"name": "x", "ownerReferences": [owner]}}
    fillers = {"other": {"status": {"phase": "CloneInProgress"}}}
    assert volumes_problem(vmi(volumes=[volume]), lambda _: claim, fillers.get) is False


def test_root_is_the_only_claim() -> None:
    assert root_volume(vmi(volumes=[SEED, ROOT])) == ROOT


def test_second_disk_is_refused_by_name() -> None:
    other = {"name": "etcd", "dataVolume": {"name": "cp-0-etcd"}}
    with pytest.raises(Unbootable, match="root, etcd"):
        root_volume(vmi(volumes=[ROOT, other]))


def test_nothing_to_boot_from_is_said() -> None:
    with pytest.raises(Unbootable, match="nothing to boot from"):
        root_volume(vmi(volumes=[SEED]))


def test_disk_is_the_file_of_the_bound_volume(tmp_path: Path) -> None:
    file = tmp_path / "pvc-1.raw"
    file.touch()
    claim = {"spec": {"volumeName": "pvc-1"}}
    volume = {"spec": {"local": {"path": str(file)}}}
    assert disk_file(ROOT, lambda _: claim, lambda _: volume, tmp_path) == file
    assert disk_file(ROOT, lambda _: claim, lambda _: None, tmp_path) == file


def test_unbound_claim_and_missing_file_are_said(tmp_path: Path) -> None:
    with pytest.raises(Unbootable, match="not bound"):
        disk_file(ROOT, lambda _: {"spec": {}}, lambda _: None, tmp_path)
    with pytest.raises(Unbootable, match="does not exist"):
        disk_file(ROOT, lambda _: {"spec": {"volumeName": "pvc-2"}}, lambda _: None, tmp_path)


def _secret(**data: str) -> Json:
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


@pytest.mark.parametrize("key", ["userdata", "userData"])
def test_seed_comes_from_the_secret(key: str) -> None:
    found = cloud_init_documents(
        vmi(volumes=[SEED]), lambda _: _secret(**{key: "#cloud-config", "networkdata": "version: 2"})
    )
    assert found == ("#cloud-config", "version: 2")


def test_seed_may_be_inline() -> None:
    inline = {"name": "seed", "cloudInitNoCloud": {"userDataBase64": base64.b64encode(b"#cloud-config").decode()}}
    assert cloud_init_documents(vmi(volumes=[inline]), lambda _: None) == ("#cloud-config", "")


def test_missing_secret_or_key_is_said() -> None:
    with pytest.raises(Unbootable, match="secret cp-0-seed does not exist"):
        cloud_init_documents(vmi(volumes=[SEED]), lambda _: None)
    with pytest.raises(Unbootable, match="none of the keys userdata, userData"):
        cloud_init_documents(vmi(volumes=[SEED]), lambda _: _secret(other="x"))
