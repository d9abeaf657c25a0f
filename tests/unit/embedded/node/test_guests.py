"""Machines of this node: one thing at a time for each."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.embedded.machines import Machines, MachineSpec, MachineStatus
from harness.embedded.node.guests import Guests, boots_again, ended_well, machine_id

UID = "d8d2366e-49ef-4631-9c22-1a478235b29e"


class FakeMachines(Machines):
    """A host without machines, that remembers what was asked of it and how many at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 0)
        self.folder = folder
        self.there: dict[str, str] = {}
        self.calls: list[str] = []
        self.inside = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def ensure_network(self, namespace_index: int) -> None:
        self.calls.append(f"network {namespace_index}")

    def remove_network(self, namespace_index: int) -> None:
        self.calls.append(f"no network {namespace_index}")

    def start(self, spec: MachineSpec) -> None:
        self.inside += 1
        assert self.inside == 1
        self.entered.set()
        assert self.gate.wait(5)
        self.there[spec.id] = "running"
        self.calls.append(f"start {spec.id}")
        self.inside -= 1

    def restart(self, spec: MachineSpec) -> None:
        self.calls.append(f"restart {spec.id}")

    def pause(self, machine_id: str) -> None: ...

    def resume(self, machine_id: str) -> None: ...

    def kill(self, identity: str) -> None:
        self.inside += 1
        assert self.inside == 1
        self.there.pop(identity, None)
        self.calls.append(f"kill {identity}")
        self.inside -= 1

    def status(self, identity: str) -> MachineStatus:
        return MachineStatus(self.there.get(identity, "absent"), "")  # type: ignore[arg-type]

    def list(self) -> list[str]:
        return sorted(self.there)

    def console(self, identity: str) -> Path:
        return self.folder / identity / "console.log"


def spec(uid: str = UID) -> MachineSpec:
    return MachineSpec(machine_id(uid), 1, "cp-0", "10.213.1.2", Path("/disk"), 1, 512, "", "", "i")


def test_machine_that_runs_is_not_started_again(tmp_path: Path) -> None:
    machines = FakeMachines(tmp_path)
    guests = Guests(machines)
    assert guests.start(spec(), lambda: True)
    assert guests.start(spec(), lambda: True)
    assert machines.calls == ["start d8d2366e"]


def test_machine_that_is_not_wanted_any_more_is_not_started(tmp_path: Path) -> None:
    machines = FakeMachines(tmp_path)
    assert not Guests(machines).start(spec(), lambda: False)
    assert machines.calls == []


def test_kill_waits_for_a_start_under_way(tmp_path: Path) -> None:
    machines = FakeMachines(tmp_path)
    guests = Guests(machines)
    machines.gate.clear()
    starting = threading.Thread(target=guests.start, args=(spec(), lambda: True))
    starting.start()
    assert machines.entered.wait(5)
    killing = threading.Thread(target=guests.kill, args=(UID,))
    killing.start()
    machines.gate.set()
    starting.join(5)
    killing.join(5)
    assert machines.calls == ["start d8d2366e", "kill d8d2366e"]


def test_orphans_are_killed_and_others_stay(tmp_path: Path) -> None:
    machines = FakeMachines(tmp_path)
    machines.there = {"d8d2366e": "running", "0badcafe": "running"}
    Guests(machines).kill_others(lambda: [UID])
    assert machines.calls == ["kill 0badcafe"]


def test_machine_without_a_pid_file_needs_a_closer_look(tmp_path: Path) -> None:
    assert not Guests(FakeMachines(tmp_path)).supervised(UID)


@pytest.mark.parametrize(
    ("phase", "console", "well"),
    [
        ("exited", "[  OK  ] Reached target poweroff.target - System Power Off.\nPowering off.", True),
        ("exited", "Reached target halt.target - System Halt.\nHalting system.\nAttempted to remove x.", True),
        ("exited", "Container d8d2366e failed", False),
        ("absent", "", False),
    ],
)
def test_power_off_is_told_from_a_crash(phase: str, console: str, well: bool) -> None:
    assert ended_well(MachineStatus(phase, console)) is well  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "console", "again"),
    [
        ("exited", "[  OK  ] Reached target reboot.target - System Reboot.\nRebooting.", True),
        ("exited", "Reached target multi-user.target\n\npower cut on request\n", True),
        ("exited", "[  OK  ] Reached target poweroff.target - System Power Off.\nPowering off.", False),
        ("exited", "Rebooting.\nReached target multi-user.target\nPowering off.", False),
        ("exited", "power cut on request\nReached target multi-user.target\nRebooting.", True),
        ("exited", "Container d8d2366e failed", False),
        ("running", "Rebooting.", False),
    ],
)
def test_a_reboot_is_told_from_other_ends(phase: str, console: str, again: bool) -> None:
    assert boots_again(MachineStatus(phase, console)) is again  # type: ignore[arg-type]


def test_only_a_machine_that_has_ended_and_is_wanted_is_booted_again(tmp_path: Path) -> None:
    machines = FakeMachines(tmp_path)
    guests = Guests(machines)
    machines.there = {machine_id(UID): "exited"}
    guests.restart(spec(), lambda: False)
    machines.there = {machine_id(UID): "running"}
    guests.restart(spec(), lambda: True)
    assert machines.calls == []
    machines.there = {machine_id(UID): "exited"}
    guests.restart(spec(), lambda: True)
    assert machines.calls == ["restart d8d2366e"]
