"""Runs of several cells: side by side as there is room, in the right order, and nothing left whoever is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from harness.cell.existing import CellSelector, find
from harness.infra.cluster.capacity import free_for_machines
from harness.kube import Cluster
from harness.kube.resources import NODE, POD
from harness.model import Cell
from harness.providers.embedded import EmbeddedProvider
from harness.report.results import load
from harness.schedule.placement import demand_of, rules_of
from tests.embedded.run import runs
from tests.embedded.run.conftest import Nothing, Start, processes
from tests.embedded.run.runs import Run, vmatrix

Pair = tuple[Cell, Cell]
COME_AND_GO = ("-k", "provision or teardown or gone")  # a cell's life without a deployment, in seconds
LONG_SECONDS = 300.0
MACHINES = ("provision", "machines")
WORKER = b"exec(eval(sys.stdin.readline()))"  # how execnet starts one


def ids(pair: Pair) -> tuple[str, ...]:
    """Return the selection of two cells."""
    return tuple(cell.id for cell in pair)


def moments(run: Run, event: str, *step: str) -> dict[str, datetime]:
    """Return when an event was written down, by cell."""
    found = [e for e in run.events() if e["event"] == event and (not step or tuple(e["step"]) == step)]
    return {str(e["cell"]): datetime.fromisoformat(e["time"]) for e in found}


def workers(run: Run) -> dict[str, int]:
    """Return the process ids of the workers of a run: the children of the process that was started."""
    children = f"/proc/{run.process.pid}/task/{run.process.pid}/children"
    with open(children, encoding="ascii") as file:
        pids = [int(word) for word in file.read().split()]
    found = {}
    for pid in pids:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if WORKER in file.read():
                found[str(pid)] = pid
    return found


def test_cells_come_and_go_side_by_side(start: Start, nothing_left: Nothing, pair: Pair) -> None:
    run = start(*COME_AND_GO, selection=ids(pair))
    ended = run.end(seconds=LONG_SECONDS)
    assert ended.code == 0, ended.stdout + ended.stderr
    nothing_left(run)
    began, gone = moments(run, "step-start", *MACHINES), moments(run, "step-end", "teardown")
    assert set(began) == set(gone) == set(ids(pair))
    assert max(began.values()) < min(gone.values())
    assert {e["worker"] for e in run.events() if e["event"] == "admitted"} == {"gw0", "gw1"}


def test_with_little_room_they_queue_the_longest_first(start: Start, nothing_left: Nothing, pair: Pair) -> None:
    larger, smaller = pair
    run = start(*COME_AND_GO, "--max-machines", str(len(larger.machines)), selection=(smaller.id, larger.id))
    ended = run.end(seconds=LONG_SECONDS)
    assert ended.code == 0, ended.stdout + ended.stderr
    nothing_left(run)
    began, gone = moments(run, "step-start", "provision"), moments(run, "step-end", "teardown")
    assert gone[larger.id] < began[smaller.id]
    assert f"{smaller.id}: waiting: the run would hold 3 machines, its limit is 2" in ended.stdout


def test_a_signal_ends_all_cells(start: Start, nothing_left: Nothing, pair: Pair) -> None:
    run = start(selection=ids(pair))
    for cell in pair:
        run.wait_for("step-start", *MACHINES, cell=cell.id, seconds=LONG_SECONDS)
    run.send(signal.SIGTERM)
    ended = run.end(seconds=LONG_SECONDS)
    assert ended.code == 143, ended.stdout + ended.stderr
    nothing_left(run)
    assert [cell.outcome for cell in load(run.results).cells] == ["interrupted", "interrupted"]
    assert "interrupted by SIGTERM: 0 of 2 cells ran to the end, 2 cut off" in ended.stdout.splitlines()[-5:]
    assert " not run (interrupted by SIGTERM) in " in ended.stdout.splitlines()[-5]
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_killed_worker_costs_its_own_cell_only(start: Start, nothing_left: Nothing, pair: Pair) -> None:
    run = start(*COME_AND_GO, selection=ids(pair))
    for cell in pair:
        run.wait_for("step-start", *MACHINES, cell=cell.id, seconds=LONG_SECONDS)
    admitted: dict[str, Any] = {e["worker"]: e["cell"] for e in run.events() if e["event"] == "admitted"}
    first = workers(run)
    assert len(first) == 2
    os.kill(min(first.values()), signal.SIGKILL)
    ended = run.end(seconds=LONG_SECONDS)
    assert ended.code == 70, ended.stdout + ended.stderr
    nothing_left(run)
    failed = {e["cell"]: e for e in run.events() if e["event"] == "step-end" and e["outcome"] == "failed"}
    assert list(failed) == [admitted["gw0"]]
    assert failed[admitted["gw0"]]["blame"] == "harness"
    assert "ended before its cell did" in ended.stdout
    assert moments(run, "step-end", "teardown").keys() == {admitted["gw1"]}


def test_after_the_controller_was_killed_reap_takes_everything(
    start: Start, cluster: Cluster, nothing_left: Nothing, pair: Pair
) -> None:
    run = start(selection=ids(pair))
    for cell in pair:
        run.wait_for("step-start", *MACHINES, cell=cell.id, seconds=LONG_SECONDS)
    pids = workers(run)
    run.send(signal.SIGKILL)
    assert run.end().code == 137
    runs.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()), "the workers have ended")
    reaped = vmatrix(*run.cleanup(), cwd=run.directory)
    assert reaped.code == 0, reaped.stderr
    assert find(cluster, CellSelector(run=run.id)) == []
    nothing_left(run)
    assert processes(run.id) == []


@pytest.fixture
def room_for_one(infra: EmbeddedProvider, cluster: Cluster, pair: Pair) -> Iterator[None]:
    """Let a pod that is bound to the node claim all that is free but the room of one and a half smaller cells."""
    wanted = demand_of(pair[1], rules_of(cluster)).memory_mib
    claimed = f"{free_for_machines(Cluster.from_kubeconfig(infra.kubeconfig())).memory_mib - wanted * 3 // 2}Mi"
    container = {"name": "idle", "image": "none", "resources": {"requests": {"memory": claimed}}}
    (node,) = (n["metadata"]["name"] for n in cluster.list(NODE).items)
    spec = {"containers": [container], "nodeName": node}
    meta = {"name": "claims-room", "namespace": "default"}
    cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    yield
    cluster.delete(POD, "claims-room", "default", grace=0)
    runs.wait_until(lambda: cluster.get(POD, "claims-room", "default") is None, "the room is free")


@pytest.mark.usefixtures("room_for_one")
def test_two_runs_at_once_never_share_one_room(start: Start, nothing_left: Nothing, pair: Pair) -> None:
    cell = pair[1].id
    both = [start(*COME_AND_GO, selection=(cell,)) for _ in range(2)]
    for run in both:
        ended = run.end(seconds=LONG_SECONDS)
        assert ended.code == 0, ended.stdout + ended.stderr
        nothing_left(run)
    first, second = sorted(both, key=lambda run: moments(run, "step-start", "provision")[cell])
    machines_gone = moments(first, "step-end", "teardown")[cell]
    assert moments(second, "step-start", *MACHINES)[cell] > moments(first, "step-start", "teardown")[cell]
    assert moments(second, "step-start", "admission")[cell] < machines_gone
