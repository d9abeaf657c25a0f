"""What a run will do is decided before anything is touched: shards, reruns, what workers are told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput, NothingSelected
from harness.events import Recorder
from harness.history.file import FileStore
from harness.history.record import MachineRecord
from harness.model import Cell
from harness.session import plan_run
from harness.session.plan import RunPlan, plan_from
from harness.spec.options import RunRequest
from harness.spec.settings import Settings, Sourced
from tests.unit.history.make import record

Written = Callable[..., Path]


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Cell, Cell]:
    """Two cells of the shipped matrix; runs go into a directory of their own."""
    monkeypatch.chdir(tmp_path)
    smoke, single = plan_run(RunRequest(tier="smoke")), plan_run(RunRequest(tier="single"))
    return smoke.cells[0], single.cells[0]


@pytest.fixture
def written(tmp_path: Path, both: tuple[Cell, Cell]) -> Written:
    """Write down a run of two cells, of which the second failed in the given attempts."""

    def write(run: str, *, failed: tuple[int, ...] = (1,), passed: tuple[int, ...] = ()) -> Path:
        directory = tmp_path / "runs" / run
        directory.mkdir(parents=True)
        recorder = Recorder(directory)
        recorder.write("run-start", run=run, tier=None, cells=[c.id for c in both], command="", cleanup="")
        for cell, attempt, outcome in [
            (both[0].id, 1, "passed"),
            *((both[1].id, n, "failed") for n in failed),
            *((both[1].id, n, "passed") for n in passed),
        ]:
            for step, came_to in (("deploy", outcome), ("teardown", "passed")):
                recorder.write("step-start", cell=cell, attempt=attempt, step=[step])
                recorder.write("step-end", cell=cell, attempt=attempt, step=[step], outcome=came_to, seconds=1.0)
            recorder.write("check", cell=cell, attempt=attempt, name="n", suite="s", outcome=outcome, seconds=0.1)
        return directory

    return write


def again(rerun: str) -> RunPlan:
    return plan_run(RunRequest(rerun_failed=rerun))


def test_what_failed_is_run_again_in_its_run_with_the_next_number(written: Written, both: tuple[Cell, Cell]) -> None:
    directory = written("abc123", failed=(1, 2))
    plan = again("abc123")
    assert (plan.run, plan.directory, plan.rerun) == ("abc123", directory, True)
    assert [c.id for c in plan.cells] == [both[1].id]
    assert plan.first_attempt(plan.cells[0]) == 3


def test_the_last_run_is_the_one_written_to_last(written: Written) -> None:
    for number, run in enumerate(("aaaaa2", "aaaaa3", "aaaaa1")):
        results = written(run) / "results.jsonl"
        os.utime(results, (number, number))
    assert again("last").run == "aaaaa1"


def test_a_run_that_passed_in_the_end_has_nothing_to_run_again(written: Written) -> None:
    written("abc123", failed=(1,), passed=(2,))
    with pytest.raises(NothingSelected, match="every cell of run abc123 passed"):
        again("abc123")


@pytest.mark.parametrize("rerun", ["nosuch", "last"])
def test_a_run_that_is_not_there_is_refused(both: tuple[Cell, Cell], rerun: str) -> None:
    with pytest.raises(BadInput, match="there is no run"):
        again(rerun)


def test_cells_that_the_matrix_lost_are_named(written: Written) -> None:
    directory = written("abc123")
    Recorder(directory).write("step-start", cell="k0-gone-000000", attempt=1, step=["provision"])
    with pytest.raises(BadInput, match="k0-gone-000000"):
        again("abc123")


def test_workers_come_to_the_same_plan(both: tuple[Cell, Cell]) -> None:
    plan = plan_run(RunRequest(tuple(c.id for c in both), settings={"timeout_scale": 2.0, "runs": Path("elsewhere")}))
    sent = json.loads(json.dumps(plan.for_workers()))
    there = plan_from(sent)
    assert (there.run, there.cells, there.directory) == (plan.run, plan.cells, plan.directory)
    assert there.project == plan.project


def test_settings_that_are_resolved_already_are_not_read_once_more(both: tuple[Cell, Cell]) -> None:
    resolved = Sourced(Settings(timeout_scale=3.0), {})
    Path("vmatrix.yml").write_text("timeout_scale: 7\n")
    request = RunRequest((both[0].id,), settings={"timeout_scale": 2.0}, resolved=resolved)
    assert plan_run(request).project.settings == resolved.settings


def test_cells_that_were_measured_request_what_they_took_in_every_process(both: tuple[Cell, Cell]) -> None:
    smoke, single = both
    took = {"cp-0": MachineRecord(peak=1000), "w-0": MachineRecord(peak=500)}
    measured = record(cell=smoke.id, axes=smoke.values, provider="embedded", usage=took)
    FileStore(Path("runs/history.jsonl")).append([measured])
    plan = plan_run(RunRequest((smoke.id, single.id)))
    assert plan.asked == {smoke.id: {"cp-0": 1200, "w-0": 600}}
    assert plan_from(json.loads(json.dumps(plan.for_workers()))).asked == plan.asked
    elsewhere = plan_run(RunRequest(tier="smoke", settings={"infra_profile": "kubevirt"}))
    assert elsewhere.asked == {}, "a KubeVirt cluster's machines have their memory for themselves"


def test_shards_are_everything_once(both: tuple[Cell, Cell]) -> None:
    patterns = tuple(c.id for c in both)
    parts = [plan_run(RunRequest(patterns, shard=f"{n}/2")).cells for n in (1, 2)]
    assert sorted(c.id for part in parts for c in part) == sorted(patterns)
    with pytest.raises(NothingSelected, match="shard 3/3"):
        plan_run(RunRequest(patterns, shard="3/3"))
    with pytest.raises(BadInput, match="shard 3 of 2 does not exist"):
        plan_run(RunRequest(patterns, shard="3/2"))


def test_a_further_cell_is_added_to_a_run_of_its_tier_and_night(written: Written, both: tuple[Cell, Cell]) -> None:
    directory = written("abc123", failed=(1,))
    recorder = Recorder(directory)
    other = next(c for c in plan_run(RunRequest(tier="mr")).cells if c.id not in {one.id for one in both})
    plan = plan_run(RunRequest(cells=(other.id,), into="last"))
    assert (plan.run, plan.directory, plan.rerun, plan.tier) == ("abc123", directory, True, None)
    assert [cell.id for cell in plan.cells] == [other.id]
    recorder.write("rerun-start", run="abc123", cells=[other.id], values={other.id: dict(other.values)})
    recorder.write("check", cell=other.id, attempt=1, name="n", suite="s", outcome="passed", seconds=0.1)
    cut_off = plan_run(RunRequest(cells=(other.id,), into="abc123"))
    assert ([cell.id for cell in cut_off.cells], cut_off.attempts) == ([other.id], {other.id: 2})
    recorder.write("step-start", cell=other.id, attempt=1, step=["teardown"])
    recorder.write("step-end", cell=other.id, attempt=1, step=["teardown"], outcome="passed", seconds=1.0)
    with pytest.raises(BadInput, match=f"run abc123 has {other.id} already"):
        plan_run(RunRequest(cells=(other.id,), into="abc123"))


@pytest.mark.parametrize(
    "request_",
    [
        RunRequest(into="last"),
        *(
            replace(RunRequest(cells=("c",), into="last"), **dict[str, Any]({name: "x"}))
            for name in ("tier", "failed", "changed_since", "night", "shard", "run_id")
        ),
    ],
)
def test_only_cells_by_their_ids_are_added_to_a_run(request_: RunRequest, written: Written) -> None:
    written("abc123")
    with pytest.raises(BadInput, match="--into adds cells by their ids"):
        plan_run(request_)
