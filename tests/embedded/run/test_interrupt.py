"""A run that is told to stop takes everything away first; told twice, it stops at once and says what is left to do."""

from __future__ import annotations

import signal

import pytest

from harness.cell.existing import CellSelector, find
from harness.kube import Cluster
from harness.model import Cell
from harness.report.results import load
from tests.embedded.conftest import Instances
from tests.embedded.run import runs
from tests.embedded.run.conftest import Nothing, Start, processes
from tests.embedded.run.runs import vmatrix

LOGIN = ("provision", "login")
MACHINES = ("provision", "machines")


@pytest.mark.parametrize(
    ("number", "code", "step"),
    [(signal.SIGTERM, 143, MACHINES), (signal.SIGINT, 130, LOGIN)],
    ids=["SIGTERM while machines are made", "SIGINT while logging in"],
)
def test_a_signal_takes_everything_away(
    start: Start, nothing_left: Nothing, single: Cell, number: signal.Signals, code: int, step: tuple[str, ...]
) -> None:
    run = start()
    run.wait_for("step-start", *step)
    run.send(number)
    ended = run.end()
    assert ended.code == code, ended.stderr
    assert run.cleanup()[:3] == ["reap", "--run", run.id]
    nothing_left(run)
    outcomes = run.outcomes()
    assert outcomes[step] == outcomes["provision",] == "interrupted"
    assert outcomes["collect",] == outcomes["teardown",] == "passed"
    assert run.events()[-1]["event"] == "run-end"
    assert run.events()[-1]["exit_code"] == code
    (result,) = load(run.results).cells
    assert (result.id, result.outcome) == (single.id, "interrupted")
    pytests, head, cell, again = ended.stdout.splitlines()[-4:]
    assert f" not run (interrupted by {number.name}) in " in pytests
    assert head == f"interrupted by {number.name}: 0 of 1 cells ran to the end, 1 cut off"
    assert cell.startswith(f"  {single.id}: cut off in {' / '.join(step)}; ")
    assert cell.endswith(" steps and checks did not run")
    assert again.startswith(f"to run what did not pass: vmatrix run --rerun-failed {run.id}")
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_signal_ends_the_playbook_with_the_run(start: Start, nothing_left: Nothing, single: Cell) -> None:
    run = start()
    run.wait_for("step-start", "deploy")
    log = run.results / single.id / "logs" / "deploy.log"
    runs.wait_until(lambda: log.exists() and "TASK [" in log.read_text(), "the playbook is at work")
    assert [line for line in processes(str(run.results)) if "ansible-playbook" in line]
    run.send(signal.SIGTERM)
    assert run.end().code == 143
    nothing_left(run)
    assert run.outcomes()["deploy",] == "interrupted"


def test_a_second_signal_stops_at_once_and_names_what_takes_the_rest_away(
    start: Start, cluster: Cluster, nothing_left: Nothing
) -> None:
    run = start()
    run.wait_for("step-start", *LOGIN)
    run.send(signal.SIGTERM)
    run.wait_for("step-start", "teardown")
    run.send(signal.SIGTERM)
    ended = run.end(seconds=5)
    assert ended.code == 143
    last = ended.stderr.strip().splitlines()[-1]
    assert last == f"stopped at once; to remove what is left: vmatrix {' '.join(run.cleanup())}"
    assert [found.run for found in find(cluster, CellSelector(run=run.id))] == [run.id]
    reaped = vmatrix(*run.cleanup(), cwd=run.directory)
    assert reaped.code == 0, reaped.stderr
    assert reaped.stdout.splitlines()[-1] == "1 cell deleted"
    nothing_left(run)
    again = vmatrix(*run.cleanup(), cwd=run.directory)
    assert (again.code, again.stdout) == (0, "no cells to delete\n")


def test_a_signal_while_the_infra_comes_up(instances: Instances, start: Start) -> None:
    fresh = instances("late")
    run = start("--infra-name", fresh.layout.name)
    run.wait_for("run-start")
    run.send(signal.SIGTERM)
    assert run.end().code == 143
    assert [e["event"] for e in run.events()] == ["run-start", "signal", "run-end"]
