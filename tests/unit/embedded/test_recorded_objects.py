"""What is rendered and written, against the objects that the real KubeVirt made in the recording."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.embedded.vm.instance import instance_of
from harness.embedded.vm.printable import Seen
from harness.embedded.vm.status import vm_status
from harness.embedded.vm.volumes import snapshot_statuses
from harness.embedded.vmi.launcher import launcher_pod
from harness.embedded.vmi.phases import next_status, placed

Json = dict[str, Any]
RECORDING = Path(__file__).parents[2] / "contract" / "recorded" / "vm-lifecycle.json"
NOW = datetime(2026, 11, 21, 9, 59, 8, tzinfo=UTC)
TIMES = ("lastProbeTime", "lastTransitionTime")


@pytest.fixture(scope="module")
def watch() -> Json:
    found: Json = json.loads(RECORDING.read_text(encoding="utf-8"))["watch"]
    return found


def versions(watch: Json, kind: str) -> list[Json]:
    return [copy.deepcopy(event["object"]) for event in watch[kind]]


def untimed(status: Json) -> Json:
    """Drop what depends on the clock."""
    found = copy.deepcopy(status)
    for condition in found.get("conditions") or []:
        for key in TIMES:
            condition.pop(key, None)
    found.pop("phaseTransitionTimestamps", None)
    return found


def without_nulls(obj: Any) -> Any:
    if isinstance(obj, dict):
        return {k: without_nulls(v) for k, v in obj.items() if v is not None}
    return [without_nulls(v) for v in obj] if isinstance(obj, list) else obj


def test_instance_is_the_recorded_one(watch: Json) -> None:
    machine, recorded = versions(watch, "vm")[3], versions(watch, "vmi")[0]
    made = instance_of(machine)
    assert made["spec"] == recorded["spec"]
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        assert made["metadata"][key] == recorded["metadata"][key], key
    assert untimed(made["status"]) == untimed(recorded["status"])


def test_launcher_asks_for_what_the_recorded_one_asked(watch: Json) -> None:
    made, recorded = launcher_pod(versions(watch, "vmi")[1]), versions(watch, "pod")[0]
    assert made["metadata"]["labels"] == recorded["metadata"]["labels"]
    assert made["metadata"]["annotations"] == recorded["metadata"]["annotations"]
    assert made["metadata"]["ownerReferences"] == recorded["metadata"]["ownerReferences"]
    for key in (
        "affinity",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "hostname",
        "nodeSelector",
        "readinessGates",
        "restartPolicy",
        "securityContext",
        "terminationGracePeriodSeconds",
    ):
        assert made["spec"][key] == recorded["spec"][key], key
    for kind in ("containers", "initContainers"):
        mine, theirs = made["spec"][kind][0], recorded["spec"][kind][0]
        for key in ("name", "image", "resources", "securityContext"):
            assert mine[key] == theirs[key], (kind, key)


def test_launcher_mounts_what_the_recorded_one_mounted(watch: Json) -> None:
    made, recorded = launcher_pod(versions(watch, "vmi")[1]), versions(watch, "pod")[0]
    assert [v["name"] for v in made["spec"]["volumes"]] == [v["name"] for v in recorded["spec"]["volumes"]]


def instance_steps(watch: Json) -> Iterator[tuple[str, Json, Json | None, Json]]:
    """Yield (name, instance, pod, recorded next instance) for each step that is the controller's own."""
    vmi, pod = versions(watch, "vmi"), versions(watch, "pod")
    yield "Pending to Scheduling", vmi[1], pod[0], vmi[2]
    yield "bound", vmi[2], pod[2], vmi[3]
    yield "Running to Ready", vmi[5], pod[4], vmi[6]
    yield "pod terminating", vmi[7], pod[5], vmi[8]
    yield "pod gone", vmi[8], None, vmi[9]


@pytest.mark.parametrize("number", range(5))
def test_instance_status_follows_the_recording(watch: Json, number: int) -> None:
    name, before, pod, after = list(instance_steps(watch))[number]
    status = without_nulls(untimed(next_status(before, pod, NOW, None)))
    expected = without_nulls(untimed(after["status"]))
    # The recording's script forgot the pod's interface name for one update.
    for side in (status, expected):
        for interface in side.get("interfaces") or []:
            interface.pop("podInterfaceName", None)
    assert status == expected, name


def test_scheduled_instance_has_its_place_as_recorded(watch: Json) -> None:
    before, pod, after = versions(watch, "vmi")[3], versions(watch, "pod")[3], versions(watch, "vmi")[4]
    claim = {
        "metadata": {"name": "cp-0-root"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}},
        "status": {"capacity": {"storage": "4Gi"}},
    }
    status = next_status(before, pod, NOW, None)
    placed(status, before, pod, {"cp-0-root": claim})
    assert untimed(status) == untimed(after["status"])


MACHINE_STEPS = [
    # name, VM before, instance (its version in the recording) or None, just created, recorded VM after
    ("instance created", 3, None, True, 4),
    ("instance seen", 4, 1, False, 5),
    ("scheduling", 5, 2, False, 6),
    ("running", 6, 5, False, 7),
    ("ready", 7, 6, False, 8),
    ("deleted", 9, 7, False, 10),
    ("pod terminating", 10, 8, False, 11),
]


@pytest.mark.parametrize(("name", "before", "seen", "created", "after"), MACHINE_STEPS)
def test_machine_status_follows_the_recording(
    watch: Json, name: str, before: int, seen: int | None, created: bool, after: int
) -> None:
    machine, expected = versions(watch, "vm")[before], versions(watch, "vm")[after]
    instance = versions(watch, "vmi")[seen] if seen is not None else None
    status = vm_status(Seen(machine, instance, start_expected=created), NOW)
    assert without_nulls(untimed(status)) == without_nulls(untimed(expected["status"])), name


def test_snapshot_statuses_are_the_recorded_ones(watch: Json) -> None:
    recorded = versions(watch, "vm")[1]
    assert snapshot_statuses(recorded, "") == recorded["status"]["volumeSnapshotStatuses"]
