"""What befalls instances."""

from __future__ import annotations

from harness.embedded.faults import Faults, instances
from harness.kube.objects import condition
from tests.unit.embedded.faults.samples import vmi


def test_an_agent_that_connects_brings_an_address_of_its_own() -> None:
    status = instances.told(Faults(), vmi(agent=""))
    assert status is not None
    assert condition({"status": status}, "AgentConnected") is not None
    assert status["interfaces"][0]["ipAddress"] == "10.0.2.2"
    assert instances.told(Faults(), {**vmi(agent=""), "status": status}) is None  # once


def test_a_move_changes_launcher_node_and_address_once() -> None:
    status = instances.told(Faults(), vmi(moves=""))
    assert status is not None
    assert list(status["activePods"].values()) == ["elsewhere"]
    assert status["migrationState"]["completed"] is True
    assert instances.told(Faults(), {**vmi(moves=""), "status": status}) is None
