"""Admission of VirtualMachines and their instances: what is recorded, defaults, and guards on update."""

from __future__ import annotations

from typing import Any

import pytest

from harness.embedded.admission.vm import default_vm, default_vmi, validate_vm, validate_vmi_create, validate_vmi_update
from harness.kube.client import Json
from tests.unit.embedded.admission.recorded import cases, hold_to

CASES = cases("vm-admission.json")
CHAIN = (
    ("virtualmachines-mutator.kubevirt.io", default_vm),
    ("virtualmachine-validator.kubevirt.io", validate_vm),
)


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_request_gets_the_recorded_answer(case: Json) -> None:
    hold_to(case, CHAIN)


def test_every_recorded_case_is_asked() -> None:
    assert len(CASES) == 43


TRUSTED = frozenset({"kubevirt"})


def instance(**spec: Any) -> Json:
    """Return a small instance."""
    domain = {"devices": {}, "memory": {"guest": "2Gi"}, "cpu": {"cores": 2}}
    return {"metadata": {"name": "vmi", "namespace": "ns"}, "spec": {"domain": domain, **spec}}


def asked(operation: str, obj: Json, old: Json | None = None, *, user: str = "someone") -> Json:
    """Return an admission request."""
    found: Json = {"operation": operation, "namespace": "ns", "object": obj, "userInfo": {"username": user}}
    return found if old is None else {**found, "oldObject": old}


def test_a_new_instance_gets_finalizers_defaults_and_its_first_phase() -> None:
    changed = default_vmi(asked("CREATE", instance()), TRUSTED).changed or {}

    assert changed["metadata"]["finalizers"] == [
        "kubevirt.io/virtualMachineControllerFinalize",
        "kubevirt.io/foregroundDeleteVirtualMachine",
    ]
    domain = changed["spec"]["domain"]
    assert domain["memory"] == {"guest": "2Gi", "maxGuest": "8Gi"}
    assert domain["cpu"] == {"cores": 2, "model": "host-model"}
    assert domain["features"] == {"acpi": {"enabled": True}}
    assert (changed["spec"]["evictionStrategy"], changed["spec"]["terminationGracePeriodSeconds"]) == ("None", 30)
    status = changed["status"]
    assert (status["phase"], status["runtimeUser"], status["currentCPUTopology"]) == ("Pending", 107, {"cores": 2})
    assert status["memory"] == {"guestAtBoot": "2Gi", "guestCurrent": "2Gi", "guestRequested": "2Gi"}


def test_defaults_leave_alone_what_is_given() -> None:
    given = instance(evictionStrategy="External", terminationGracePeriodSeconds=0)
    given["status"] = {"phase": "Pending", "virtualMachineRevisionName": "revision-1"}

    changed = default_vmi(asked("CREATE", given), TRUSTED).changed or {}

    assert (changed["spec"]["evictionStrategy"], changed["spec"]["terminationGracePeriodSeconds"]) == ("External", 0)
    assert changed["status"]["virtualMachineRevisionName"] == "revision-1"


@pytest.mark.parametrize(("user", "written"), [("kubevirt", True), ("someone", False)])
def test_only_kubevirt_writes_the_status(user: str, written: bool) -> None:
    old, new = {**instance(), "status": {"phase": "Pending"}}, {**instance(), "status": {"phase": "Running"}}

    verdict = default_vmi(asked("UPDATE", new, old, user=user), TRUSTED)

    assert verdict.allowed
    assert (verdict.changed is None) == written
    assert written or verdict.changed == {"status": {"phase": "Pending"}}


def test_users_do_not_change_the_spec() -> None:
    verdict = validate_vmi_update(asked("UPDATE", instance(hostname="b"), instance(hostname="a")), TRUSTED)

    assert (verdict.allowed, verdict.code, verdict.message) == (False, 422, "update of VMI object is restricted")
    assert validate_vmi_update(asked("UPDATE", instance(hostname="b"), instance(), user="kubevirt"), TRUSTED).allowed


def test_users_do_not_change_kubevirts_labels() -> None:
    old, new = instance(), instance()
    new["metadata"]["labels"] = {"mine": "yes"}
    assert validate_vmi_update(asked("UPDATE", new, old), TRUSTED).allowed

    new["metadata"]["labels"]["kubevirt.io/nodeName"] = "elsewhere"
    assert not validate_vmi_update(asked("UPDATE", new, old), TRUSTED).allowed


def test_an_instance_needs_memory_and_a_disk_for_each_volume() -> None:
    bare = instance(volumes=[{"name": "root", "dataVolume": {"name": "root"}}])
    bare["spec"]["domain"] = {"devices": {}}

    verdict = validate_vmi_create(asked("CREATE", bare), TRUSTED)

    assert [cause.message for cause in verdict.causes] == [
        "spec.domain.volumes[0].name 'root' not found.",
        "no memory requested, at least one of 'spec.domain.memory.guest', 'spec.domain.memory.hugepages.size' or "
        "'spec.domain.resources.requests.memory' must be set",
    ]
