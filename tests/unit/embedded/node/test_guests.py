"""Machines of this node: one thing at a time for each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from harness.embedded.machines import Machines, MachineSpec, MachineStatus
from harness.embedded.node.guests import NETWORK_INDEX, Addresses, Guests, boots_again, ended_well, machine_id
from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.informer import Informer
from harness.kube.resources import NAMESPACE, POD

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


Json = dict[str, Any]


class Api:
    """Answers the merge patches of namespaces."""

    def __init__(self) -> None:
        self.patches: list[str] = []

    def merge(self, _: object, name: str, patch: Json) -> Json:
        self.patches.append(name)
        return {"metadata": {"name": name, "resourceVersion": "100", **patch["metadata"]}}

    def get(self, _: object, name: str) -> Json | None:
        return None


def addresses(namespaces: list[Json], launchers: list[Json]) -> Addresses:
    api = cast(Cluster, Api())
    of_namespaces, of_pods = Informer(api, NAMESPACE), Informer(api, POD)
    for number, found in enumerate(namespaces, 1):
        found["metadata"].setdefault("resourceVersion", str(number))
        of_namespaces.observe(found)
    for number, found in enumerate(launchers, 1):
        found["metadata"].setdefault("resourceVersion", str(number))
        of_pods.observe(found)
    return Addresses(api, of_namespaces, of_pods, 213)


def namespace(name: str, index: int | None = None) -> Json:
    meta: Json = {"name": name}
    if index is not None:
        meta["annotations"] = {NETWORK_INDEX: str(index)}
    return {"metadata": meta}


def pod(uid: str, address: str | None = None) -> Json:
    status = {"podIP": address} if address else {}
    return {"metadata": {"name": uid, "namespace": "a", "uid": uid}, "status": status}


def test_namespace_keeps_the_network_that_is_written_on_it() -> None:
    assert addresses([namespace("a", 7)], []).network("a") == 7


def test_new_namespace_gets_the_first_free_network() -> None:
    found = addresses([namespace("a", 1), namespace("b", 3), namespace("c")], [])
    assert found.network("c", on_host=[2]) == 4
    assert found.network("c") == 4
    assert found.claimed() == {1, 3, 4}


def test_namespace_that_is_gone_or_going_gets_no_network() -> None:
    going = namespace("b")
    going["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    found = addresses([going], [])
    with pytest.raises(InfraError, match="is gone"):
        found.network("a")
    with pytest.raises(InfraError, match="being deleted"):
        found.network("b")


def test_networks_run_out_with_a_message() -> None:
    with pytest.raises(InfraError, match="all 249 VM networks"):
        addresses([namespace("a")], []).network("a", on_host=range(1, 251))


def test_addresses_are_unique_and_stable() -> None:
    launchers = [pod("p1", "10.213.1.2"), pod("p2"), pod("p3")]
    found = addresses([namespace("a", 1)], launchers)
    given = [found.address(p, 1) for p in launchers]
    assert given[0] == "10.213.1.2"
    assert len(set(given)) == 3
    assert [found.address(p, 1) for p in launchers] == given


def test_freed_address_is_not_given_at_once() -> None:
    found = addresses([namespace("a", 1)], [])
    assert found.address(pod("p1"), 1) == "10.213.1.2"
    assert found.address(pod("p2"), 1) == "10.213.1.3"


def test_full_network_is_said() -> None:
    launchers = [pod(f"p{n}", f"10.213.1.{n}") for n in range(2, 254)]
    with pytest.raises(InfraError, match="no free address"):
        addresses([namespace("a", 1)], launchers).address(pod("new"), 1)
