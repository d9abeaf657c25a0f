"""The plan job, executed by gitlab-ci-local, and the child pipelines that it makes; no cell is started."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.gitlab import child, limits
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from tests.gitlab.checkout import HISTORY, NIGHTLY, REAP, Checkout, Ended

ONE_IMAGE = "vm-templates/images/debian-12/recipe.yml"
SECONDS = 300.0


def planned(project: Checkout, variables: Mapping[str, str]) -> tuple[Ended, dict[str, Any]]:
    """Run the plan job and return what it made."""
    ended = project.call("plan", variables=variables, seconds=SECONDS)
    assert ended.code == 0, ended.said
    found: dict[str, Any] = yaml.safe_load((project.directory / "matrix.yml").read_text(encoding="utf-8"))
    return ended, found


def cells(pipeline: Mapping[str, Any]) -> set[str]:
    """Return the cells of a child pipeline."""
    return {job["variables"]["MATRIX_CELL"] for job in limits.jobs(pipeline).values() if "timeout" in job}


def tier(project: Checkout, name: str, night: date | None = None) -> set[str]:
    """Return the ids of a tier's cells on the embedded infrastructure."""
    return {cell.id for cell in tier_cells(load_spec(project.directory / "matrix"), name, "embedded", night=night)}


def test_a_change_runs_the_cells_that_it_can_affect_but_for_the_smoke_cell(project: Checkout) -> None:
    recipe = project.directory / ONE_IMAGE
    recipe.write_text(recipe.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    project.commit("A change to one image")
    ended, pipeline = planned(project, project.request())
    found = cells(pipeline)
    assert found
    assert found <= tier(project, "mr") - tier(project, "smoke")
    assert ONE_IMAGE in ended.stdout
    assert pipeline["default"]["interruptible"] is True
    assert limits.broken(pipeline) == []


def test_a_change_of_words_makes_a_child_pipeline_that_says_so_and_runs(project: Checkout) -> None:
    (project.directory / "README.md").write_text("# Other words\n", encoding="utf-8")
    project.commit("Other words")
    _, pipeline = planned(project, project.request())
    (name,) = limits.jobs(pipeline)
    assert name == child.NOTHING
    ended = project.call("--file", "matrix.yml", variables={"CI_PIPELINE_SOURCE": "parent_pipeline"})
    assert ended.code == 0, ended.said
    assert "affects a cell" in ended.stdout
    assert "README.md" in ended.stdout


@pytest.mark.parametrize("label", ["smoke", "full"])
def test_a_label_chooses_the_tier(project: Checkout, label: str) -> None:
    project.git("commit", "--quiet", "--allow-empty", "--message", "Nothing")
    _, pipeline = planned(project, project.request(CI_MERGE_REQUEST_LABELS=f"bug,matrix::{label}"))
    assert cells(pipeline) == tier(project, label) - tier(project, "smoke")


def test_the_night_runs_everything(project: Checkout) -> None:
    _, pipeline = planned(project, NIGHTLY)
    night = date.fromisoformat(pipeline["variables"]["MATRIX_NIGHT"])
    assert cells(pipeline) == tier(project, "nightly", night)
    assert len(cells(pipeline)) > 10
    assert pipeline["default"]["interruptible"] is False


def test_a_schedule_without_a_purpose_is_refused(project: Checkout) -> None:
    ended = project.call("plan", variables={"CI_PIPELINE_SOURCE": "schedule"}, seconds=SECONDS)
    assert ended.code != 0
    assert "MATRIX_SCHEDULE says what it is for" in ended.said
    assert not (project.directory / "matrix.yml").exists()


def without_smoke(project: Checkout) -> None:
    """Let the smoke job do nothing and pass."""
    project.only_cells()
    template = project.directory / "templates" / "vmatrix.yml"
    text = template.read_text(encoding="utf-8")
    template.write_text(text.replace("  timeout: 250m", "  script: ['true']\n  timeout: 250m"), encoding="utf-8")


def test_each_cell_of_the_night_is_a_job_that_becomes_a_run_and_ends_by_itself(project: Checkout) -> None:
    """No check fits the filter, so each run refuses before it makes anything: what is looked at is the way there."""
    without_smoke(project)
    project.two_cells()
    project.commit("Two cells")
    given = NIGHTLY | HISTORY | {"MATRIX_NIGHTLY_TIER": "two", "MATRIX_ONLY": "nosuchcheck"}
    ended = project.call("--concurrency", "1", variables=given, seconds=SECONDS)
    ids = tier(project, "two")
    assert len(ids) == 2
    for cell in ids:
        said = "\n".join(line for line in ended.said.splitlines() if f"[matrix] -> {cell}" in line)
        assert "--tier two " in said
        assert "--provider embedded --infra-profile embedded --infra-name ci-" in said
        assert f"-k nosuchcheck --cell {cell}" in said
        assert "no check was selected" in said
        assert "FAIL 4" in said
        assert "nothing of run" in said
    assert "cell runs added" in ended.stdout.partition("[matrix] -> report")[2]
    assert (project.directory / "public" / "index.html").is_file()


def test_a_whole_pipeline_without_a_cell_goes_from_the_plan_to_the_report(project: Checkout) -> None:
    """The smoke job's script is replaced: what is looked at is that each job gets from the others what it needs."""
    without_smoke(project)
    project.commit("No cell")
    (project.directory / "README.md").write_text("# Other words\n", encoding="utf-8")
    project.commit("Other words")
    ended = project.call(variables=project.request(**HISTORY), seconds=SECONDS)
    assert ended.code == 0, ended.said
    said = [line for line in ended.stdout.splitlines() if "affects a cell" in line]
    assert len(said) >= 2, "the plan said it, and so did the child pipeline"
    assert "set MATRIX_NOTE_TOKEN" in ended.stdout
    links = json.loads((project.directory / "public" / "annotations.json").read_text(encoding="utf-8"))
    assert any("no note on the merge request" in str(entry) for entry in links["vmatrix"])


def test_without_its_smoke_cell_no_matrix_starts_and_there_is_a_report_all_the_same(project: Checkout) -> None:
    """The smoke job is refused at once: the infra cluster that it is to run on cannot be reached.

    gitlab-ci-local starts no `always` job behind one that was skipped, as GitLab does: the report is asked for by name.
    """
    given = NIGHTLY | HISTORY | {"MATRIX_INFRA": "kubevirt"}
    ended = project.call("plan", "smoke", "matrix", variables=given, seconds=SECONDS)
    assert ended.code != 0
    assert "the job has no access to the infra cluster" in ended.said
    assert "smoke" in ended.said.partition("FAIL")[2]
    assert not any(line.startswith("matrix") for line in ended.stdout.splitlines())
    reported = project.call("report", variables=given, seconds=SECONDS)
    assert reported.code == 0, reported.said
    assert (project.directory / "public" / "index.html").is_file()
    assert json.loads((project.directory / "public" / "annotations.json").read_text(encoding="utf-8"))


def test_the_hourly_schedule_takes_away_what_outlived_its_job(project: Checkout, tmp_path: Path) -> None:
    instances = tmp_path / "state" / "vmatrix" / "embedded"
    for name, hours in (("ci-aaaaaa", 8), ("ci-bbbbbb", 5), ("somebodys", 50)):
        (instances / name).mkdir(parents=True)
        os.utime(instances / name, (time.time() - hours * 3600,) * 2)
    given = REAP | HISTORY | {"XDG_STATE_HOME": str(tmp_path / "state")}
    ended = project.call("reap", variables=given, seconds=SECONDS)
    assert ended.code == 0, ended.said
    assert "gone: infra ci-aaaaaa" in ended.stdout
    assert {folder.name for folder in instances.glob("*/")} == {"ci-bbbbbb", "somebodys"}


PRODUCT_PIPELINE = """\
stages: [plan, smoke, matrix, report]
include:
  - local: /templates/vmatrix.yml
    inputs:
      product: ci/product.yml
      tier: single
      infra: embedded
      smoke_tier: single
      runner_tag: big
      prefix: "cells "
      vmatrix_project: {origin}
      vmatrix_ref: main
"""


def test_another_teams_pipeline_runs_our_matrix_on_its_product(pristine: Checkout, tmp_path: Path) -> None:
    team = Checkout(tmp_path / "team")
    (team.directory / "deploy").mkdir(parents=True)
    product = yaml.safe_load((pristine.directory / "matrix/product.yml").read_text(encoding="utf-8"))
    product["product"] |= {"name": "theirs", "directory": "deploy"}
    for phase in product["product"]["phases"].values():
        (team.directory / "deploy" / phase["playbook"]).write_text(
            "- hosts: all  # cluster_kubeconfig_path\n", encoding="utf-8"
        )
    for name, text in {
        "ci/product.yml": yaml.safe_dump(product),
        ".gitlab-ci.yml": PRODUCT_PIPELINE.format(origin=pristine.directory),
        # include:project asks a GitLab; a local copy is read the same way
        "templates/vmatrix.yml": (pristine.directory / "templates/vmatrix.yml").read_text(encoding="utf-8"),
        "harness/gitlab/jobs.yml": child.COMMON.read_text(encoding="utf-8"),
    }.items():
        (team.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (team.directory / name).write_text(text, encoding="utf-8")
    subprocess.run(["/usr/bin/git", "init", "-q", "-b", "main", str(team.directory)], check=True, timeout=60)
    team.git("remote", "add", "origin", "https://gitlab.example.org/team/theirs.git")
    team.commit("Their product")
    given = {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main", "MATRIX_WANT_TIER": "single"}
    assert set(team.listed(given)) == {f"cells {job}" for job in ("plan", "smoke", "matrix", "report", "publish")}
    ended = team.call("cells plan", variables=given, seconds=SECONDS)
    assert ended.code == 0, ended.said
    pipeline = yaml.safe_load((team.directory / "cells matrix.yml").read_text(encoding="utf-8"))
    assert cells(pipeline) == tier(pristine, "single")
    assert pipeline["default"]["tags"] == ["big"]
    assert pipeline["variables"]["MATRIX_PRODUCT"] == "ci/product.yml"
    assert not Path(f"{team.directory}.project").exists(), "a job works on its checkout, as a desk does"
    assert limits.broken(team.merged(given)) == []
