"""Instances in situations that the recording does not show: waiting, unschedulable, ending, booting from what."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.embedded.objects import condition
from harness.embedded.vmi.launcher import launcher_pod, pod_name
from harness.embedded.vmi.overhead import MIB, cpu_request, guest_memory, memory_overhead, vcpus
from harness.embedded.vmi.phases import SyncError, next_status
from harness.embedded.vmi.volumes import Unbootable, disk_file, root_volume, seed, volumes_problem

Json = dict[str, Any]
NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
DELETED = {"deletionTimestamp": "2026-11-21T10:00:00Z"}


def vmi(phase: str = "Pending", *, volumes: list[Json] | None = None, conditions: list[Json] | None = None) -> Json:
    return {
        "metadata": {"name": "cp-0", "namespace": "cell-a", "uid": "d8d2366e-49ef-4631-9c22-1a478235b29e"},
        "spec": {"domain": {"cpu": {"cores": 2}, "memory": {"guest": "2Gi"}, "devices": {}}, "volumes": volumes or []},
        "status": {"phase": phase, "conditions": conditions or []},
    }


def pod(phase: str = "Pending", *, node: str = "", conditions: list[Json] | None = None, ready: bool = True) -> Json:
    spec = {"nodeName": node} if node else {}
    containers = [{"name": "compute", "ready": ready}] if phase == "Running" else []
    status = {"phase": phase, "conditions": conditions or [], "containerStatuses": containers}
    return {"metadata": {"uid": "p1", "name": "virt-launcher-cp-0-abcde"}, "spec": spec, "status": status}


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


def test_repeated_create_makes_the_same_pod() -> None:
    assert pod_name(vmi()) == pod_name(vmi())
    assert launcher_pod(vmi())["metadata"]["name"].startswith("virt-launcher-cp-0-")


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ({"cpu": {"cores": 2}}, 2),
        ({"cpu": {"cores": 2, "sockets": 2, "threads": 2}}, 8),
        ({"cpu": {"model": "host-model"}, "resources": {"requests": {"cpu": "1500m"}}}, 2),
        ({"resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}}, 3),
        ({}, 1),
    ],
)
def test_virtual_cpus(domain: Json, expected: int) -> None:
    assert vcpus({"domain": domain}) == expected
    assert cpu_request({"domain": domain}) == f"{expected * 100}m"


def test_memory_asked_of_the_scheduler() -> None:
    spec = vmi()["spec"]
    assert guest_memory(spec) == 2048 * MIB
    assert memory_overhead(spec) == 276 * MIB
    no_graphics = {"domain": {**spec["domain"], "devices": {"autoattachGraphicsDevice": False}}}
    assert memory_overhead(no_graphics) == 244 * MIB


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
    with pytest.raises(Unbootable, match="not there"):
        disk_file(ROOT, lambda _: {"spec": {"volumeName": "pvc-2"}}, lambda _: None, tmp_path)


def _secret(**data: str) -> Json:
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


@pytest.mark.parametrize("key", ["userdata", "userData"])
def test_seed_comes_from_the_secret(key: str) -> None:
    found = seed(vmi(volumes=[SEED]), lambda _: _secret(**{key: "#cloud-config", "networkdata": "version: 2"}))
    assert (found.user_data, found.network_data) == ("#cloud-config", "version: 2")


def test_seed_may_be_inline() -> None:
    inline = {"name": "seed", "cloudInitNoCloud": {"userDataBase64": base64.b64encode(b"#cloud-config").decode()}}
    assert seed(vmi(volumes=[inline]), lambda _: None).user_data == "#cloud-config"


def test_missing_secret_or_key_is_said() -> None:
    with pytest.raises(Unbootable, match="secret cp-0-seed does not exist"):
        seed(vmi(volumes=[SEED]), lambda _: None)
    with pytest.raises(Unbootable, match="none of the keys userdata, userData"):
        seed(vmi(volumes=[SEED]), lambda _: _secret(other="x"))
