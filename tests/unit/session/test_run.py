"""A run keeps its cells for the report by itself, with where it ran; and stays what it is when that fails."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from harness import providers
from harness.history.file import FileStore
from harness.paths import PROJECT
from harness.session import plan_run, refusals
from harness.session import run as running
from harness.session.run import Run
from harness.spec.options import RunRequest
from tests.unit.report.written import Written


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run of one planned cell that brings nothing up and has nothing to take away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in [name for name in os.environ if name.startswith(("CI_", "VMATRIX_", "MATRIX_")) and name != PROJECT]:
        monkeypatch.delenv(name)
    site = SimpleNamespace(cluster=None, timeouts=SimpleNamespace(teardown=1.0))
    monkeypatch.setattr(providers, "open_site", lambda *_, **__: site)
    monkeypatch.setattr(refusals, "refuse", lambda *_: None)  # whatever this host lacks
    monkeypatch.setattr(running, "reap", lambda *_, **__: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield Run(plan_run(RunRequest(tier="single")), console=Console(file=io.StringIO(), width=400))
    for number, handler in before.items():
        signal.signal(number, handler)


def goes_well(run: Run) -> int:
    """Let the run's cell pass; return the exit code."""
    run.start()
    cell = run.plan.cells[0].id
    Written(run.plan.directory).step(cell, "deploy").check(cell).gone(cell)
    return run.finish(0)


def test_a_run_that_ended_is_in_the_history(run: Run) -> None:
    assert goes_well(run) == 0
    (kept,) = FileStore(Path("runs/history.jsonl")).load().records
    cell = run.plan.cells[0]
    assert (kept.cell, kept.outcome, kept.tier, kept.infra) == (cell.id, "passed", "single", "embedded")
    assert kept.axes == cell.values
    assert len(kept.where.commit) == 40
    assert kept.logs == f"runs/{run.plan.run}/{cell.id}/logs"
    assert FileStore(run.plan.directory / "history.jsonl").load().records == (kept,)


def test_a_history_that_cannot_be_written_changes_nothing_else(run: Run) -> None:
    Path("runs/history.jsonl").mkdir(parents=True)
    assert goes_well(run) == 0
    assert (run.plan.directory / "junit.xml").exists()
    said = run.console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert "this run is not in the history: cannot write the history" in said
    assert f"vmatrix history add {run.plan.directory}" in said


@pytest.mark.parametrize("there", [True, False])
def test_an_instance_that_a_signal_left_half_up_is_told_with_how_to_delete_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    def bring_up(*_: object, **__: object) -> None:
        if there:
            (Path(os.environ["XDG_STATE_HOME"]) / "vmatrix/embedded/default").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(providers, "open_site", bring_up)
    with pytest.raises(KeyboardInterrupt):
        run.start()
    run.finish(2)
    run.show_interruption()
    output = run.console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert ("to delete it: vmatrix infra down --infra-name default" in output) == there
