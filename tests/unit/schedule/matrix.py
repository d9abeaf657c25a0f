"""Cells, nodes and books for the tests of scheduling; small, and only as real as these tests need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.model import Cell, Phase, PlannedMachine
from harness.schedule.admission import Bound, Survey
from harness.schedule.placement import NodeRoom, PodRequest
from harness.schedule.reservations import Book, Edit, Ledger

KINDS = {"cp": ("control_plane", "etcd"), "w": ("node",)}


def cell(name: str, *machines: int, scenario: str = "fresh", topology: str = "cp1-w1") -> Cell:
    """Return a cell of machines with this memory (MiB); the first is the control plane, the rest are workers."""
    made = tuple(
        PlannedMachine(f"{kind}-{number}", KINDS[kind], 2, memory, 12, "debian-13")
        for number, (kind, memory) in enumerate(zip(["cp", *["w"] * len(machines)], machines or (2048,), strict=False))
    )
    values = {"kubernetes": "1.36.3", "topology": topology, "scenario": scenario}
    steps = ("deploy",) if scenario == "fresh" else ("deploy", scenario)
    phases = tuple(Phase(step, machines=tuple(m.name for m in made)) for step in steps)
    return Cell(name, values, scenario, phases, made, {})


def node(name: str, memory: int, *, millicpus: int = 64000, pods: int = 110) -> NodeRoom:
    """Return a node with this much memory (MiB) free."""
    return NodeRoom(name, memory, millicpus, pods)


def bound(cell_id: str, memory: int, where: str = "a", *, run: str = "r") -> Bound:
    """Return a machine's launcher pod."""
    return Bound(where, PodRequest(memory, 205), run, cell_id)


def surveyed(nodes: Sequence[NodeRoom], *pods: Bound) -> Survey:
    """Return a cluster of these nodes (as if empty) and pods."""
    return Survey(tuple(nodes), tuple(pods))


class Shelf:
    """The book of an infra cluster without one: any number of ledgers on one value."""

    def __init__(self) -> None:
        self.book = Book()

    def ledger(self, holder: str) -> Ledger:
        """Return a holder's ledger."""
        return _OnShelf(self, holder)


class _OnShelf(Ledger):
    """A ledger whose swaps always succeed."""

    def __init__(self, shelf: Shelf, holder: str) -> None:
        self._shelf = shelf
        self._name = holder
        self._count = 0

    def change(self, edit: Edit) -> Book:
        wanted = edit(self._shelf.book)
        if wanted is not None:
            self._count += 1
            self._shelf.book = wanted.beat(self._name, self._count)
        return self._shelf.book


def clock(moments: list[float]) -> Callable[[], float]:
    """Return a clock that shows the last moment of a list."""
    return lambda: moments[-1]
