"""Which control planes an endpoint leads to."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.controllers.guest import another_server
from harness.operator.controllers.machine_phase import is_down
from tests.unit.operator.controllers.looks import given

Json = dict[str, Any]


def said(kind: str, status: str) -> Json:
    return {"type": kind, "status": status, "reason": "x"}


@pytest.mark.parametrize(
    ("phase", "conditions", "down"),
    [
        ("Ready", [], False),
        ("Deployed", [], False),  # nothing is known of its node
        ("NotReady", [], True),
        ("Lost", [], True),
        ("Deployed", [said("Answering", "False")], True),
        ("Deployed", [said("Answering", "Unknown")], False),
        ("Ready", [said("InfrastructureReady", "False")], True),
        ("Ready", [said("InfrastructureReady", "Unknown")], False),
    ],
)
def test_a_control_plane_is_down_by_what_is_known_of_it(phase: str, conditions: list[Json], down: bool) -> None:
    machine = given("m-0", phase)
    machine["status"]["conditions"] = conditions
    assert is_down(machine) is down


def plane(name: str, address: str, phase: str, role: str = "control-plane") -> Json:
    made = given(name, phase)
    made["spec"]["address"], made["status"]["roles"] = address, [role]
    return made


KUBECONFIG = b"clusters: [{name: a, cluster: {server: 'https://192.0.2.10:6443'}}]"


@pytest.mark.parametrize(
    ("first", "second", "server"),
    [
        ("Ready", "Ready", None),
        ("Deployed", "Ready", None),  # nobody knows that it is down
        ("NotReady", "Ready", "https://192.0.2.11:6443"),
        ("Lost", "Deployed", "https://192.0.2.11:6443"),
        ("NotReady", "NotReady", None),
    ],
)
def test_the_operator_goes_to_another_control_plane_where_its_own_is_down(
    first: str, second: str, server: str | None
) -> None:
    machines = [plane("m-0", "192.0.2.10", first), plane("m-1", "192.0.2.11", second)]
    workers = [plane("m-2", "192.0.2.9", "Ready", "worker")]
    assert another_server(KUBECONFIG, [*workers, *machines]) == server


@pytest.mark.parametrize("text", [b"", b"{", b"clusters: []", b"clusters: [{name: a}]"])
def test_a_kubeconfig_that_cannot_be_read_is_left_to_who_opens_it(text: bytes) -> None:
    assert another_server(text, [plane("m-0", "192.0.2.10", "Lost")]) is None
