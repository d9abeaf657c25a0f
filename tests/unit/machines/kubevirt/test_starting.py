"""How far a machine is that is being made: what is in the way is told in the words of who declared it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.machines.kubevirt.starting import (
    EVENTS_SECONDS,
    PATIENT_SECONDS,
    Halt,
    Stage,
    Start,
    of_disk,
    of_image,
    of_start,
)
from tests.unit.cell.disk_cluster import DiskCluster, event, volume

Json = dict[str, Any]
MADE = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return MADE + timedelta(seconds=seconds)


def looked(found: Json, *events: Json, age: float = 1.0) -> Halt | None:
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    cluster: Any = DiskCluster(events=list(events))
    return of_image(cluster, found, at(age))


def test_an_image_that_is_there_is_no_halt() -> None:
    assert looked(volume("Succeeded")) is None


def test_an_import_under_way_says_how_far_it_is() -> None:
    halt = looked(volume("ImportInProgress", progress="43.2%"))
    assert halt == Halt(Stage.IMPORTING_IMAGE, "image d: ImportInProgress 43.2%")


def test_a_wrong_checksum_names_the_field_of_the_machine() -> None:
    running = ("False", "Error", "Unable to process data: checksum mismatch")
    halt = looked(volume("ImportInProgress", restarts=3, running=running))
    assert halt is not None
    assert halt.reason is Stage.IMAGE_IMPORT_FAILED
    assert "checksum mismatch; what its URL serves is not what `checksum` says" in halt.message
    assert "`kubevirt.image`" in halt.message
    assert "matrix/" not in halt.message


QUOTA = event("ErrExceededQuota", "exceeded quota: disks")


@pytest.mark.parametrize(("age", "told"), [(1.0, False), (EVENTS_SECONDS + 1, False), (PATIENT_SECONDS + 1, True)])
def test_a_quota_is_told_once_it_has_lasted(age: float, told: bool) -> None:
    halt = looked(volume("Pending"), QUOTA, age=age)
    assert halt is not None
    assert halt.reason is Stage.IMPORTING_IMAGE
    assert ("exceeded quota" in halt.message) is told


def test_a_disk_that_the_class_cannot_make_is_told_soon() -> None:
    cluster: Any = DiskCluster(events=[event("ErrClaimNotValid", "no accessMode")])
    found = volume("Pending")
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    halt = of_disk(cluster, found, at(EVENTS_SECONDS + 1))
    assert halt is not None
    assert (halt.reason, "no accessMode" in halt.message) == (Stage.DISK_FAILED, True)


def start(word: str, conditions: list[Json], **status: Any) -> Halt:
    pod = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": conditions}}
    cluster: Any = DiskCluster(pods=[pod])
    vmi = {"metadata": {"name": "w-0", "uid": "u"}, "status": {"phase": "Scheduling"}}
    return of_start(Start(cluster, "ns", "w-0", 4096, {"printableStatus": word, **status}, vmi))


def test_a_machine_that_no_node_has_room_for_says_what_the_scheduler_says() -> None:
    said = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient memory."}
    halt = start("ErrorUnschedulable", [said])
    assert halt.reason is Stage.NO_NODE_FITS
    assert "1 Insufficient memory.; it needs 4096 MiB; free memory on the infra cluster or ask for less" in halt.message
    assert "topology" not in halt.message


def test_a_machine_that_starts_and_one_that_does_not_stay_up() -> None:
    assert start("Starting", []).reason is Stage.STARTING
    failed = start("CrashLoopBackOff", [], startFailure={"consecutiveFailCount": 3})
    assert failed.reason is Stage.NOT_STARTING
    assert "does not stay up (failed to start 3 times)" in failed.message


SAID = "server error. command SyncVMI failed: \"LibvirtError(Code=38, Message='no KVM')\""
FALSE = {"type": "Synchronized", "status": "False", "reason": "Synchronizing with the Domain failed.", "message": SAID}
EVENTS = [
    {**event("SyncFailed", "the first"), "type": "Warning"},
    {**event("SyncFailed", SAID.replace(": ", ":\n ")), "type": "Warning"},
]


@pytest.mark.parametrize(
    ("word", "status", "conditions", "events", "said"),
    [
        ("Starting", {}, [FALSE], [], SAID),
        ("Starting", {}, [{**FALSE, "message": ""}], [], "Synchronizing with the Domain failed."),
        ("CrashLoopBackOff", {}, [FALSE], [], SAID),
        ("CrashLoopBackOff", {}, [], EVENTS, SAID),
        ("Starting", {"startFailure": {"consecutiveFailCount": 2}}, [], EVENTS, SAID),
        ("Stopped", {"created": True}, [], EVENTS, SAID),
        ("CrashLoopBackOff", {}, [], [], "CrashLoopBackOff"),
    ],
)
def test_why_a_domain_could_not_be_started_is_in_the_first_line(
    word: str, status: Json, conditions: list[Json], events: list[Json], said: str
) -> None:
    cluster: Any = DiskCluster(events=events)
    vmi = {"metadata": {"name": "w-0", "uid": "u"}, "status": {"phase": "Scheduled", "conditions": conditions}}
    halt = of_start(Start(cluster, "ns", "w-0", 4096, {"printableStatus": word, **status}, vmi))
    assert halt.reason is Stage.NOT_STARTING
    assert said in halt.message.splitlines()[0]
