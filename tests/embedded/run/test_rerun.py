"""What failed is run once more, into the same run; both attempts stay to be seen, and the last one counts."""

from __future__ import annotations

from pathlib import Path

from harness.model import Cell
from harness.report.results import load
from tests.embedded.run.conftest import Nothing, Start
from tests.embedded.run.runs import project_copy, vmatrix
from tests.embedded.run.test_failures import BROKEN

LONG_SECONDS = 300.0


def test_a_failed_cell_is_run_again_in_its_run(
    start: Start, single: Cell, nothing_left: Nothing, tmp_path: Path
) -> None:
    project = project_copy(tmp_path / "project", "playbooks")
    (project / "playbooks" / "cluster.yml").write_text(BROKEN, encoding="utf-8")
    run = start(env={"VMATRIX_PROJECT": str(project)})
    assert run.end(seconds=LONG_SECONDS).code == 1
    listed = vmatrix("list", "--failed", "last", cwd=tmp_path)
    assert (listed.code, single.id in listed.stdout) == (0, True), listed.stderr

    again = vmatrix(
        *("run", "--rerun-failed", "last", "--infra-name", run.cleanup()[-1]),
        *("-k", "provision or teardown or gone"),
        cwd=tmp_path,
    )
    assert again.code == 0, again.stdout + again.stderr
    nothing_left(run)
    result = load(run.results)
    (cell,) = result.cells
    assert (result.run, cell.id, cell.last_attempt) == (run.id, single.id, 2)
    assert cell.outcome_of(1) == "failed"
    assert (run.results / single.id / "logs" / "deploy.log").is_file(), "what the first attempt left stays"
    assert (run.results / single.id / "attempt-2").is_dir()
    summary = (run.results / "summary.md").read_text(encoding="utf-8")
    assert "attempt 1 failed" in summary
