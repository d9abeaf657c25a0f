"""Runs that share an infra cluster, as events on their own clock: the real admission and queue, a scheduler beside.

Machines are made some time after their cell was admitted, in any order, and bound by a scheduler that takes any node
with room. The cluster objects to a pod that finds none: that is what admission promises will never happen.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import cast

from harness.kube import Cluster
from harness.model import Cell
from harness.schedule.admission import Admission, Bound, Outlook, Survey
from harness.schedule.placement import Limits, Nodes, Rules, demand_of
from harness.session.dispatch import CellQueue
from tests.unit.schedule.matrix import Shelf

TICK = 30.0
NO_CLUSTER = cast(Cluster, None)  # nothing asks it: what the cluster has is the simulation's


class Overcommitted(AssertionError):
    """A machine of an admitted cell found no node."""


@dataclass
class World:
    """One infra cluster and its clock."""

    nodes: Nodes
    random: Random
    now: float = 0.0
    pods: list[Bound] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)
    runs: list[SimulatedRun] = field(default_factory=list)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen later."""
        heapq.heappush(self.events, (self.now + seconds, next(self.numbers), what))

    def look(self) -> Survey:
        """Return what a survey of the cluster would."""
        return Survey(self.nodes, tuple(self.pods))

    def outlook(self) -> Outlook:
        """Return how an admission sees this world."""
        return Outlook(Rules(), self.look, self.shelf.ledger)

    def bind(self, pod: Bound) -> None:
        """Give a pod any node that has room for it."""
        places = [node.name for node in self.look().free if node.holds(pod.request)]
        if not places:
            raise Overcommitted(f"no node takes a machine of {pod.cell} with {pod.request.memory_mib} MiB")
        self.pods.append(Bound(self.random.choice(places), pod.request, pod.run, pod.cell))

    def play(self, *, until: float = float("inf")) -> None:
        """Let everything happen, until nothing is left to happen."""
        for run in self.runs:
            run.fill()
        while self.events and self.events[0][0] <= until:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] <= self.now:
                heapq.heappop(self.events)[2]()
            for run in self.random.sample(self.runs, len(self.runs)):
                run.fill()


@dataclass
class SimulatedRun:
    """One run: starts what it may, whenever anything has happened."""

    world: World
    name: str
    cells: Sequence[Cell]
    seconds: Mapping[str, float]
    expected: Mapping[str, float] | None = None  # where it is not what cells really take
    limits: Limits = field(default_factory=Limits)
    patience: float = 1800.0
    boot: float = 20.0
    started: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    most: int = 0

    def __post_init__(self) -> None:
        """Join the world."""
        world = self.world
        expected = self.seconds if self.expected is None else self.expected
        self.queue = CellQueue(self.cells, lambda cell: expected[cell.id])
        self.admission = Admission(
            NO_CLUSTER,
            self.name,
            limits=self.limits,
            patience=self.patience,
            now=lambda: world.now,
            outlook=world.outlook(),
        )
        world.runs.append(self)

    def fill(self) -> None:
        """Start all that may start; look again later if something has to wait."""
        while self.queue.waiting:
            admitted = self.admission.admit_first(self.queue.waiting).admitted
            if admitted is None:
                self._look_again()
                return
            self.queue.take(admitted)
            self._start(admitted)

    def _look_again(self) -> None:
        if len(self.world.events) == 0 or self.world.events[0][0] > self.world.now + TICK:
            self.world.after(TICK, lambda: None)

    def _start(self, cell: Cell) -> None:
        assert cell.id not in self.started, f"{cell.id} has started twice"
        self.started[cell.id] = self.world.now
        self.most = max(self.most, len(self.started) - len(self.ended))
        pods = [Bound("", request, self.name, cell.id) for request in demand_of(cell).pods]
        for pod in pods:
            self.world.after(self.world.random.uniform(0, self.boot), lambda pod=pod: self.world.bind(pod))  # type: ignore[misc]
        self.world.after(self.boot, lambda: self.admission.machines_up(cell.id))
        self.world.after(self.boot + self.seconds[cell.id], lambda: self._end(cell))

    def _end(self, cell: Cell) -> None:
        self.world.pods = [pod for pod in self.world.pods if (pod.run, pod.cell) != (self.name, cell.id)]
        self.ended[cell.id] = self.world.now
        self.admission.gone(cell.id)
