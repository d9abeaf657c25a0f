"""A kept cell as its run wrote it down: after which phase it is checked again, by which checks, and what cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import providers
from harness.cell.existing import Existing
from harness.cell.place import place_of
from harness.errors import BadInput
from harness.events import Recorder
from harness.model import Cell
from harness.paths import project_dir
from harness.plan.select import PlanSelection, selected
from harness.rundir import RunDir
from harness.session import recheck as keeping
from harness.session.recheck import Recheck, next_directory, plan_recheck, verdict
from harness.spec import load_spec
from harness.spec.project import Project
from harness.spec.settings import Settings

RUN = "abcdef"
SECONDS = 300.0  # against hanging
COLLECT = f"""\
import sys
from types import SimpleNamespace
import pytest
from harness import providers
from harness.cell.existing import Existing
from harness.cell.place import place_of
from harness.rundir import RunDir
from harness.session import recheck
def existing(access, cell, runs, run):
    assert run is None
    return Existing(access, cell, place_of({RUN!r}, cell, 1), RunDir.of(runs, {RUN!r}).attempt(cell, 1), {RUN!r}, 1)
recheck.existing = existing
recheck.providers.open_cluster = lambda *_: None
recheck.providers.of = lambda _: SimpleNamespace(infra=lambda _: None)
W = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # pytest came second in this process
sys.exit(pytest.main(["tests/cells", "--collect-only", "-q", *W, "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def planned() -> Cell:
    """Return a cell that is deployed, reset and deployed again."""
    spec = load_spec(project_dir() / "matrix")
    return selected(spec, "embedded", PlanSelection(("scenario=reset",), tier="lifecycle"))[0].cell


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    def existing(access: Any, name: str, runs: Path, run: str | None) -> Existing:
        assert run is None
        return Existing(access, name, place_of(RUN, name, 1), RunDir.of(runs, RUN).attempt(name, 1), RUN, 1)

    monkeypatch.setattr(keeping, "existing", existing)
    monkeypatch.setattr(providers, "open_cluster", lambda *_: None)
    monkeypatch.setattr(providers, "of", lambda _: SimpleNamespace(infra=lambda _: None))
    return Project.load(Settings(runs=tmp_path))


def written(runs: Path, cell: Cell, *begun: str, tier: str | None = "lifecycle") -> Recorder:
    """Write what a run that kept the cell after some phases has left."""
    directory = RunDir.of(runs, RUN).path
    directory.mkdir()
    recorder = Recorder(directory)
    recorder.write("run-start", run=RUN, cells=[cell.id], tier=tier, values={cell.id: dict(cell.values)})
    for stage in ("provision", *begun):
        recorder.write("step-start", cell=cell.id, attempt=1, step=[stage])
        recorder.write("step-start", cell=cell.id, attempt=1, step=[stage, "inner"])
    files = RunDir(directory).attempt(cell.id)
    files.variables.parent.mkdir(parents=True)
    files.variables.write_text("cluster_kubernetes_version: 1.36.3\n", encoding="utf-8")
    files.kubeconfig.write_text("{}\n", encoding="utf-8")
    return recorder


@pytest.mark.parametrize(("begun", "stage"), [(("deploy",), "deploy"), (("deploy", "reset", "deploy-2"), "deploy-2")])
def test_it_is_checked_after_the_phase_that_was_begun_last(
    tmp_path: Path, project: Project, planned: Cell, begun: tuple[str, ...], stage: str
) -> None:
    written(tmp_path, planned, *begun)
    recheck = plan_recheck(project, planned.id)
    assert (recheck.kept.stage, recheck.plan.after, recheck.plan.run) == (stage, recheck.kept.index, RUN)
    assert recheck.plan.suites() == frozenset({"nodes", "cluster", "network"})
    assert recheck.not_judged == ("suite phases: what happened during a phase is over",)
    assert not recheck.plan.directory.exists()


def test_suites_are_those_that_were_asked_for(tmp_path: Path, project: Project, planned: Cell) -> None:
    written(tmp_path, planned, "deploy")
    recheck = plan_recheck(project, planned.id, ["network", "conformance"])
    assert (recheck.plan.suites(), recheck.not_judged) == (frozenset({"network", "conformance"}), ())
    assert plan_recheck(project, planned.id, ["idempotence"]).plan.suites() == frozenset({"idempotence"})


def test_a_second_run_is_for_who_asks_for_it(tmp_path: Path, project: Project, planned: Cell) -> None:
    written(tmp_path, planned, "deploy", tier=None)
    suites = plan_recheck(project, planned.id).plan.suites()
    assert suites is not None
    assert "conformance" in suites
    assert "idempotence" not in suites


@pytest.mark.parametrize(
    ("begun", "suites", "says"),
    [
        ((), (), "was left before its first phase"),
        (("deploy", "reset"), (), "was left after reset: it has no guest cluster"),
        (("deploy",), ("phases",), "which is over"),
        (("deploy",), ("netwrok",), "did you mean 'network'"),
        (("deploy",), ("life",), "unknown suite"),
    ],
)
def test_what_cannot_be_checked(
    tmp_path: Path, project: Project, planned: Cell, begun: tuple[str, ...], suites: tuple[str, ...], says: str
) -> None:
    written(tmp_path, planned, *begun)
    with pytest.raises(BadInput, match=says) as refused:
        plan_recheck(project, planned.id, suites)
    assert refused.value.hint


def test_files_that_are_elsewhere(tmp_path: Path, project: Project, planned: Cell) -> None:
    with pytest.raises(BadInput, match="says nothing of cell"):
        plan_recheck(project, planned.id)
    written(tmp_path, planned, "deploy")
    RunDir.of(tmp_path, RUN).attempt(planned.id).kubeconfig.unlink()
    with pytest.raises(BadInput, match="is not on this machine"):
        plan_recheck(project, planned.id)


def test_a_matrix_that_has_changed(tmp_path: Path, project: Project, planned: Cell) -> None:
    recorder = written(tmp_path, planned, "deploy")
    recorder.write("rerun-start", values={planned.id: {**planned.values, "topology": "cp3-w2"}})
    with pytest.raises(BadInput, match="the matrix has changed"):
        plan_recheck(project, planned.id)


def test_each_time_has_a_folder_of_its_own(tmp_path: Path, project: Project, planned: Cell) -> None:
    written(tmp_path, planned, "deploy")
    files = RunDir.of(tmp_path, RUN).attempt(planned.id)
    assert next_directory(files) == files.again / "1"
    for name in ("1", "10", "notes"):
        (files.again / name).mkdir(parents=True)
    assert next_directory(files) == files.again / "11"


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ((), 4),
        ((("passed", ""),), 0),
        ((("passed", ""), ("failed", "product")), 1),
        ((("failed", "infra"), ("passed", "")), 3),
        ((("failed", "infra"), ("failed", "product")), 1),
        ((("failed", "harness"), ("failed", "product")), 70),
    ],
)
def test_the_exit_code_says_whose_failures_they_are(
    tmp_path: Path, project: Project, planned: Cell, outcomes: tuple[tuple[str, str], ...], code: int
) -> None:
    written(tmp_path, planned, "deploy")
    recheck: Recheck = plan_recheck(project, planned.id)
    recheck.plan.directory.mkdir(parents=True)
    recorder = Recorder(recheck.plan.directory)
    recorder.write("run-start", run=RUN, cells=[planned.id])
    for number, (outcome, blame) in enumerate(outcomes):
        fields = {"attempt": 1, "stage": "deploy", "suite": "nodes", "name": f"test_{number}", "seconds": 0.1}
        recorder.write("check", cell=planned.id, outcome=outcome, blame=blame, **fields)
    assert verdict(recheck.plan) == code


def test_pytest_collects_the_checks_of_that_phase_alone(tmp_path: Path, planned: Cell) -> None:
    written(tmp_path, planned, "deploy", "reset", "deploy-2")
    words = ["--recheck", planned.id, "--runs", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, *words],
        cwd=project_dir(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    items = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(items) > 20, done.stdout + done.stderr
    assert {line.split("/")[2] for line in items} == {"nodes", "cluster", "network"}
    assert all("-deploy-2]" in line for line in items)
