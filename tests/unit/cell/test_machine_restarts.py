"""Restarts in a phase: who restarts with whom, what counts as back, and whose fault it is when nobody comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cell import machine_restarts as module
from harness.cell.machine_restarts import Restarts
from harness.cell.place import Place
from harness.errors import InfraError, ProductError
from harness.kube.client import ApiFailure
from harness.machines.reach.ssh import SSH_FAILED
from harness.model import Cell, Environment, Machine, Phase, PlannedMachine
from tests.unit.shipped_timeouts import TIMEOUTS

NAMES = ("cp-0", "w-0", "etcd-0")
GROUPS = {"cp-0": ("control_plane",), "w-0": ("node",), "etcd-0": ("etcd",)}


class World:
    """Machines that boot when they are told to, and the API of their nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boots = dict.fromkeys(NAMES, 1)
        self.log: list[str] = []
        self.dead: set[str] = set()
        self.stale: set[str] = set()
        monkeypatch.setattr(module, "run_on", self._run_on)
        monkeypatch.setattr(module, "close_connections", lambda _: self.log.append("close"))
        monkeypatch.setattr(module, "INTERVAL", 0.01)
        monkeypatch.setattr("harness.cell.machine_restarts.Cluster.from_kubeconfig", lambda _: self)

    def _boot(self, name: str) -> None:
        if name not in self.dead:
            self.boots[name] += 1

    def _run_on(self, machine: Machine, command: str, **_: Any) -> Any:
        if command == module.BOOT_ID:
            return SimpleNamespace(returncode=0, stdout=f"{self.boots[machine.name]}\n", stderr="")
        self.log.append(f"reboot {machine.name}")
        self._boot(machine.name)
        return SimpleNamespace(returncode=SSH_FAILED, stdout="", stderr="closed")

    def request(self, method: str, path: str, *, body: Any) -> None:
        name = path.split("/")[-2].removeprefix("cell-")
        self.log.append(f"{method} {path}")
        self._boot(name)

    def list(self, _: object) -> Any:
        def boot(name: str) -> str:
            return "1" if name in self.stale else str(self.boots[name])

        conditions = [{"type": "Ready", "status": "True"}]
        nodes = [
            {"metadata": {"name": n}, "status": {"nodeInfo": {"bootID": boot(n)}, "conditions": conditions}}
            for n in NAMES[:2]
        ]
        return SimpleNamespace(items=nodes)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def restarts(world: World, tmp_path: Path, seconds: float = 30.0) -> Restarts:
    machines = tuple(
        Machine(PlannedMachine(n, GROUPS[n], 1, 512, 8, "debian"), "192.0.2.1", 22, "debian") for n in NAMES
    )
    environment = Environment("r", Cell("c", {}, "s", (), (), {}), 1, "ns", machines, tmp_path, tmp_path / "id")
    site: Any = SimpleNamespace(timeouts=TIMEOUTS.model_copy(update={"restart": seconds}), cluster=world)
    return Restarts(site, Place("ns", prefix="cell-"), environment, tmp_path / "kubeconfig", lambda _: None)


def phase(how: str, names: Sequence[str]) -> Phase:
    return Phase("reboot", machines=NAMES, restart=how, restarts=tuple(names))


def test_one_by_one_goes_on_only_when_a_node_is_back(world: World, tmp_path: Path) -> None:
    assert restarts(world, tmp_path).run(phase("one-by-one", NAMES)) == dict.fromkeys(NAMES, "2")
    assert world.log == ["reboot cp-0", "close", "reboot w-0", "close", "reboot etcd-0", "close"]


def test_all_at_once_are_told_before_anyone_is_waited_for(world: World, tmp_path: Path) -> None:
    restarts(world, tmp_path).run(phase("all-at-once", NAMES))
    assert sorted(world.log[:3]) == ["reboot cp-0", "reboot etcd-0", "reboot w-0"]
    assert world.log[3:] == ["close"]


def test_only_the_phases_machines_restart(world: World, tmp_path: Path) -> None:
    assert list(restarts(world, tmp_path).run(phase("all-at-once", ["cp-0"]))) == ["cp-0"]
    assert world.boots == {"cp-0": 2, "w-0": 1, "etcd-0": 1}


def test_power_is_cut_by_kubevirts_reset_of_the_cells_instances(world: World, tmp_path: Path) -> None:
    restarts(world, tmp_path).run(phase("power-cut", ["w-0"]))
    assert world.log[0] == (
        "PUT /apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/cell-w-0/reset"
    )


def test_a_reset_that_is_refused_names_the_right(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ApiFailure(403, "Forbidden", "no", [], request="PUT reset")

    monkeypatch.setattr(world, "request", refuse)
    with pytest.raises(InfraError, match="w-0 cannot be reset: no") as caught:
        restarts(world, tmp_path).run(phase("power-cut", ["w-0"]))
    assert "update on virtualmachineinstances/reset" in caught.value.hint


def test_a_machine_that_does_not_go_down_is_no_restart(world: World, tmp_path: Path) -> None:
    world.dead = {"w-0"}
    with pytest.raises(ProductError, match=r"w-0 to take logins after its restart.*has not gone down"):
        restarts(world, tmp_path, 0.2).run(phase("all-at-once", NAMES))


def test_a_node_that_is_ready_from_before_is_not_back(world: World, tmp_path: Path) -> None:
    world.stale = {"w-0"}
    with pytest.raises(ProductError, match="the kubelet of w-0 has not reported since"):
        restarts(world, tmp_path, 0.2).run(phase("all-at-once", NAMES))
