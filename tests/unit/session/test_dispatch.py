"""Cells go to workers as there is room; what workers write down is passed on, and a worker's death is written down."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from harness.cell.steps import Steps
from harness.errors import HarnessBug, InfraRetriable
from harness.model import Cell
from harness.report.live import Live
from harness.report.results import load
from harness.schedule.admission import Admission
from harness.schedule.durations import Durations
from harness.session import Run, plan_run
from harness.session.admit import Waiting
from harness.session.dispatch import Assigned, CellQueue, Dispatch
from harness.spec.options import RunRequest
from tests.unit.schedule.matrix import cell, node
from tests.unit.schedule.simulation import NO_CLUSTER, World


@dataclass
class Dispatched:
    """A dispatch on a simulated infra cluster, and what it says."""

    dispatch: Dispatch
    said: io.StringIO

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.dispatch.run.plan.cells

    def steps(self, cell: Cell, attempt: int = 1) -> Steps:
        """Return the steps of a cell as its worker writes them."""
        return Steps(self.dispatch.run.recorder, cell.id, attempt)


@pytest.fixture
def roomy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dispatched:
    """Two cells, room for both, two workers."""
    monkeypatch.chdir(tmp_path)
    patterns = [plan_run(RunRequest(tier=tier)).cells[0].id for tier in ("smoke", "single")]
    plan = plan_run(RunRequest(cells=tuple(patterns)))
    plan.directory.mkdir(parents=True)
    world = World((node("a", 10**6),), Random(1))  # noqa: S311 - the simulation's dice, no secret
    said = io.StringIO()
    admission = Admission(NO_CLUSTER, plan.run, outlook=world.outlook())
    run = Run(plan, parallel=2)
    run.recorder.write("run-start", run=plan.run, cells=[c.id for c in plan.cells], parallel=2)
    run.live = Live(Console(file=said, width=300), gitlab=False, parallel=True, cells=len(plan.cells))
    made = Dispatch.of(run, Waiting(admission, Durations(), 600.0, run.live.on_waiting))
    for number, name in enumerate(("gw0", "gw1")):
        made.add_worker(name, 10**8 + number)  # no process has such an id
    return Dispatched(made, said)


def begun(dispatched: Dispatched) -> dict[str, Assigned]:
    found = [dispatched.dispatch.next(), dispatched.dispatch.next()]
    return {a.worker: a for a in found if a is not None}


def test_both_cells_start_and_are_said_to(roomy: Dispatched) -> None:
    assigned = begun(roomy)
    assert {a.cell.id for a in assigned.values()} == {c.id for c in roomy.cells}
    roomy.dispatch.listen()
    assert f"{assigned['gw0'].cell.id}: starts on gw0; expected " in roomy.said.getvalue()
    assert "0 of 2 done, 2 running, 0 waiting" in roomy.said.getvalue()


def test_a_cell_that_ended_is_said_once_with_its_checks(roomy: Dispatched) -> None:
    cell = begun(roomy)["gw0"].cell
    with roomy.steps(cell).step("deploy"):
        pass
    fields = {"attempt": 1, "stage": "deploy", "suite": "nodes", "name": "test_ready"}
    roomy.dispatch.run.recorder.write("check", cell=cell.id, outcome="passed", seconds=0.1, **fields)
    with roomy.steps(cell).step("teardown"):
        pass
    roomy.dispatch.done("gw0")
    roomy.dispatch.listen()
    assert roomy.said.getvalue().count(f"{cell.id}: done: passed 1 check (") == 1


def test_a_cell_of_which_nothing_was_selected_never_starts(roomy: Dispatched) -> None:
    roomy.dispatch.leave_out(roomy.cells[0])
    assert [a.cell for a in begun(roomy).values()] == [roomy.cells[1]]


def test_a_worker_that_dies_fails_the_attempt_that_it_was_at(roomy: Dispatched) -> None:
    cell = begun(roomy)["gw0"].cell
    with pytest.raises(InfraRetriable), roomy.steps(cell).step("provision"):
        raise InfraRetriable("no address")
    roomy.dispatch.run.recorder.write("step-start", cell=cell.id, attempt=2, step=["provision"])
    roomy.dispatch._stop_at = float("inf")  # the run was told to end, which takes away what the worker left
    roomy.dispatch.lost("gw0")
    (found,) = [c for c in load(roomy.dispatch.run.plan.directory).cells if c.id == cell.id]
    assert (found.outcome, found.last_attempt, found.earlier) == ("failed", 2, {1: "failed"})
    assert [(s.name, s.blame) for s in found.last_failures] == [("worker", "harness")]


def failing(dispatched: Dispatched, worker: str, cell: Cell, *, steps: tuple[str, ...]) -> None:
    for name in steps:
        if name == "start over":
            with dispatched.steps(cell).step(name):
                pass
        else:
            with pytest.raises(InfraRetriable), dispatched.steps(cell).step(name):
                raise InfraRetriable("no address")
    dispatched.dispatch.done(worker)


@pytest.mark.parametrize(
    ("fail_fast", "steps", "begins"),
    [
        (False, ("provision",), True),
        (True, ("provision",), False),
        (True, ("provision", "start over"), True),
        (True, (), True),
    ],
)
def test_no_further_cell_begins_once_one_has_failed(
    roomy: Dispatched, fail_fast: bool, steps: tuple[str, ...], begins: bool
) -> None:
    dispatch = roomy.dispatch
    dispatch.run.plan = replace(dispatch.run.plan, fail_fast=fail_fast)
    del dispatch.workers["gw1"]
    first = dispatch.next()
    assert first is not None
    failing(roomy, "gw0", first.cell, steps=steps)
    assert (dispatch.next() is not None) == begins
    assert dispatch.finished == (not begins)


def test_the_longest_comes_first_then_the_one_with_more_memory() -> None:
    small, large, long = cell("small", 1024), cell("large", 2048), cell("long", 512)
    seconds = {"small": 10.0, "large": 10.0, "long": 99.0}
    queue = CellQueue([small, large, long], lambda c: seconds[c.id])
    assert [c.id for c in queue.waiting] == ["long", "large", "small"]


def test_a_cell_leaves_the_queue_once_and_the_rest_keep_their_places() -> None:
    first, second, third = cell("a", 4096), cell("b", 1024), cell("c", 512)
    queue = CellQueue([third, second, first], lambda c: 9.0 if c.id == "a" else 1.0)
    queue.take(second)
    assert queue.waiting == (first, third)
    with pytest.raises(HarnessBug):
        queue.take(second)
    assert len(queue) == 2
