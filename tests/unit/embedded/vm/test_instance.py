"""A machine's instance, as the real KubeVirt made it."""

from __future__ import annotations

from harness.embedded.admission.vm import default_vmi
from harness.embedded.vm.instance import instance_of
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
