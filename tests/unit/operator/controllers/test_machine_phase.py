from __future__ import annotations

import pytest

from harness.operator.controllers.machine_phase import phase_of
from harness.operator.controllers.machine_use import MachineUse
from tests.unit.operator.controllers.objects import condition, machine

UP = condition("Reachable", "True")
FREE = {
    "nobody looked": ((), "Pending"),
    "bare": ((UP, condition("Empty", "True")), "Idle"),
    "unreachable": ((condition("Reachable", "False", "Unreachable"), condition("Empty", "Unknown")), "Unreachable"),
    "key refused": ((condition("Reachable", "False", "KeyRefused"), condition("Empty", "Unknown")), "Failed"),
    "not empty": ((UP, condition("Empty", "False", "NotEmpty")), "Failed"),
    "looked at before it was edited": ((UP, condition("Empty", "True", generation=0)), "Pending"),
}


@pytest.mark.parametrize("case", FREE)
def test_the_phase_of_a_free_machine_follows_its_conditions(case: str) -> None:
    conditions, wanted = FREE[case]
    assert phase_of(machine("m-0", *conditions), MachineUse.FREE, ()) == wanted


@pytest.mark.parametrize(
    ("use", "wanted"),
    [
        (MachineUse.CLAIMED, "Claimed"),
        (MachineUse.JOINING, "Deploying"),
        (MachineUse.LEAVING, "Removing"),
        (MachineUse.BROKEN, "Failed"),
    ],
)
def test_the_phase_of_a_machine_in_use_does_not_depend_on_its_last_login(use: MachineUse, wanted: str) -> None:
    down = condition("Reachable", "False", "Unreachable")
    assert phase_of(machine("m-0", down), use, ["worker"]) == wanted


@pytest.mark.parametrize(
    ("status", "wanted"), [("True", "Ready"), ("False", "NotReady"), ("Unknown", "Deployed"), (None, "Deployed")]
)
def test_a_deployed_machine_is_as_ready_as_its_node(status: str | None, wanted: str) -> None:
    conditions = [condition("NodeReady", status, generation=None)] if status else []
    assert phase_of(machine("m-0", *conditions), MachineUse.DEPLOYED, ["control-plane"]) == wanted
    assert phase_of(machine("m-0", *conditions), MachineUse.DEPLOYED, ["etcd"]) == "Ready"
