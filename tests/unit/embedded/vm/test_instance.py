"""A machine's instance and volumes, as the real KubeVirt made and described them."""

from __future__ import annotations

from harness.embedded.admission.vm import default_vmi
from harness.embedded.vm.instance import instance_of, snapshot_statuses
from tests.unit.embedded.recording import untimed, versions


def test_instance_is_the_recorded_one() -> None:
    machine, recorded = versions("vm")[3], versions("vmi")[0]
    bare = instance_of(machine)
    request = {"operation": "CREATE", "namespace": "cell-a", "object": bare, "userInfo": {"username": "kubevirt"}}
    made = {**bare, **(default_vmi(request, frozenset({"kubevirt"})).changed or {})}
    assert made["spec"] == recorded["spec"]
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        assert made["metadata"][key] == recorded["metadata"][key], key
    assert untimed(made["status"]) == untimed(recorded["status"])


def test_snapshot_statuses_are_the_recorded_ones() -> None:
    recorded = versions("vm")[1]
    assert snapshot_statuses(recorded) == recorded["status"]["volumeSnapshotStatuses"]
