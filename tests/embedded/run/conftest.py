"""Runs on the tests' own embedded infrastructure; whatever a test leaves there is taken away after it."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from harness.cell.existing import CellSelector, find
from harness.cell.teardown import reap
from harness.kube import Cluster
from harness.machines.reach.ssh import control_directory
from harness.model import Cell
from harness.paths import project_dir
from harness.plan.select import PlanSelection, selected
from harness.proc import run as command
from harness.providers.embedded import EmbeddedProvider
from harness.spec import load_spec
from tests.embedded.run import runs
from tests.embedded.run.runs import Run

TEARDOWN_SECONDS = 120.0
Start = Callable[..., Run]
Nothing = Callable[[Run], None]


@pytest.fixture(scope="session")
def single() -> Cell:
    """Return the cell of the tier `single`."""
    return only_cell("single")


@pytest.fixture(scope="session")
def pair() -> tuple[Cell, Cell]:
    """Return two cells, the one that is expected to take longer first."""
    return only_cell("smoke"), only_cell("single")


def only_cell(tier: str) -> Cell:
    """Return the one cell that a tier has on the embedded infrastructure."""
    (found,) = selected(load_spec(project_dir() / "matrix"), "embedded", PlanSelection(tier=tier))
    return found.cell


@pytest.fixture
def start(infra: EmbeddedProvider, cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Return what starts a run; a run that still goes on is killed after the test and its cells are taken away."""
    started: list[Run] = []

    def begin(*options: str, selection: Sequence[str] = ("--tier", "single"), env: dict[str, str] | None = None) -> Run:
        run_id = "t" + secrets.token_hex(3)[:5]
        started.append(runs.start(tmp_path, run_id, infra.layout.name, *options, selection=selection, env=env))
        return started[-1]

    yield begin
    for run in started:
        if run.process.poll() is None:
            run.send(signal.SIGKILL)
            run.end()
        reap(cluster, CellSelector(run=run.id), seconds=TEARDOWN_SECONDS)


@pytest.fixture
def nothing_left(infra: EmbeddedProvider, cluster: Cluster, single: Cell) -> Nothing:
    """Return what looks whether anything of a run is left: cells, machines, processes, SSH connections."""

    def look(run: Run) -> None:
        assert find(cluster, CellSelector(run=run.id)) == []
        assert [m.namespace for m in infra.status().machines if run.id in m.namespace] == []
        for cell in {single.id, *(str(e["cell"]) for e in run.events() if "cell" in e)}:
            control = control_directory(run.id, cell)
            assert not control.exists()
            assert processes(str(control)) == []
        assert processes(str(run.results)) == []

    return look


def processes(word: str) -> list[str]:
    """Return the command lines that name a word."""
    lines = command(["ps", "-e", "-ww", "-o", "pid=,args="], timeout=10).stdout.splitlines()
    return [line for line in lines if word in line and "ps -e" not in line]


@pytest.fixture(scope="session")
def kubeconfig_options(infra: EmbeddedProvider) -> list[str]:
    """Return the options by which another machine would reach the same infra cluster: with its kubeconfig alone."""
    return ["--provider", "kubeconfig", "--kubeconfig", str(infra.kubeconfig())]
