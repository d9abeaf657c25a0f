"""How the node agent ends a machine whose launcher is told to go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.embedded.context import Context
from harness.embedded.faults import Faults
from harness.embedded.machines import MachineStatus
from harness.embedded.node.guests import Addresses, Guests
from harness.embedded.vmi.agent import Agent
from harness.embedded.vmi.launcher import KILL_AFTER_SECONDS
from harness.kube.objects import stamp

Json = dict[str, Any]


class Guest:
    """A machine that runs until it is killed, or shuts down when it is asked."""

    def __init__(self, *, obeys: bool) -> None:
        self.obeys, self.alive, self.done = obeys, True, list[str]()
        self.ends_when_seen = False  # between one look and the next
        self.left = MachineStatus("running", "")  # some of its processes are left for a moment when it has ended

    def supervised(self, _uid: str) -> bool:
        alive = self.alive
        self.alive = alive and not self.ends_when_seen
        return alive

    def status(self, _uid: str) -> MachineStatus:
        return self.left

    def power_off(self, _uid: str) -> None:
        self.done.append("power_off")
        self.alive = self.alive and not self.obeys

    def kill(self, _uid: str) -> None:
        self.done.append("kill")
        self.alive = False


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def agent_of(said: list[str]) -> Callable[[Guest], Agent]:
    def tell(_vmi: Json, reason: str, message: str, component: str) -> None:
        assert component == "virt-handler"
        said.append(f"{reason}: {message}")

    events = SimpleNamespace(normal=tell, warning=tell)
    informers = SimpleNamespace(of=lambda _resource: None)
    context = cast(Context, SimpleNamespace(informers=informers, events=events, faults=Faults()))
    return lambda guest: Agent(context, cast(Guests, guest), cast(Addresses, None))


def running(grace: int) -> Json:
    meta = {"name": "m", "namespace": "n", "uid": "12345678-0000"}
    spec = {"terminationGracePeriodSeconds": grace}
    interface = {"name": "default", "mac": "02:00", "ipAddress": "10.1.0.5", "ipAddresses": ["10.1.0.5"]}
    status = {"phase": "Running", "interfaces": [interface]}
    return {"kind": "VirtualMachineInstance", "metadata": meta, "spec": spec, "status": status}


def going(left: float) -> Json:
    """Return a launcher whose guest has so many seconds left."""
    until = datetime.now(UTC) + timedelta(seconds=left + 2 * KILL_AFTER_SECONDS)
    return {"metadata": {"deletionTimestamp": stamp(until)}}


STOPPING = ["Deleted: VirtualMachineInstance stopping", "Deleted: Signaled Deletion"]
SHUT_DOWN = "Stopped: The VirtualMachineInstance was shut down."


def test_a_guest_without_time_is_killed_and_has_succeeded(agent_of: Callable[[Guest], Agent], said: list[str]) -> None:
    guest = Guest(obeys=True)
    status = agent_of(guest).stop(running(0), going(0))
    assert status is not None
    assert (status["phase"], guest.done) == ("Succeeded", ["kill"])
    assert status["interfaces"] == [{"name": "default", "mac": "02:00"}]
    assert said == [*STOPPING, SHUT_DOWN]


def test_a_guest_with_time_shuts_down_and_has_succeeded(agent_of: Callable[[Guest], Agent], said: list[str]) -> None:
    guest = Guest(obeys=True)
    agent = agent_of(guest)
    assert agent.stop(running(30), going(30)) is None
    status = agent.stop(running(30), going(29))
    assert status is not None
    assert (status["phase"], guest.done) == ("Succeeded", ["power_off"])
    assert said == ["ShuttingDown: Signaled Graceful Shutdown", SHUT_DOWN]


def test_a_guest_that_overstays_its_time_is_killed_and_has_failed(
    agent_of: Callable[[Guest], Agent], said: list[str]
) -> None:
    guest = Guest(obeys=False)
    agent = agent_of(guest)
    assert [agent.stop(running(30), going(left)) for left in (30, 20)] == [None, None]
    status = agent.stop(running(30), going(-1))
    assert status is not None
    assert (status["phase"], guest.done) == ("Failed", ["power_off", "kill"])
    assert said[1:] == [*STOPPING, "Stopped: The VirtualMachineInstance crashed."]


def test_a_guest_that_ends_between_two_looks_has_succeeded(agent_of: Callable[[Guest], Agent]) -> None:
    guest = Guest(obeys=False)
    guest.left = MachineStatus("exited", "nothing that tells how it ended")
    agent = agent_of(guest)
    assert agent.stop(running(30), going(30)) is None
    guest.ends_when_seen = True
    assert agent.stop(running(30), going(29)) is None
    status = agent.stop(running(30), going(28))
    assert status is not None
    assert (status["phase"], guest.done) == ("Succeeded", ["power_off"])


def test_an_end_is_the_same_when_it_has_to_be_written_again(agent_of: Callable[[Guest], Agent]) -> None:
    guest = Guest(obeys=True)
    guest.left = MachineStatus("exited", "nothing that tells how it ended")
    agent = agent_of(guest)
    assert agent.stop(running(30), going(30)) is None
    ends = [agent.stop(running(30), going(left)) for left in (29, 28)]
    assert [end["phase"] for end in ends if end is not None] == ["Succeeded", "Succeeded"]
    agent.forget(running(30)["metadata"]["uid"])
    forgotten = agent.stop(running(30), going(27))
    assert forgotten is not None
    assert forgotten["phase"] == "Failed"
