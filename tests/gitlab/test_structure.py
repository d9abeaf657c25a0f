"""The pipelines as GitLab will see them: which jobs for which event, who needs whom, what `extends` made of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.gitlab import child, limits
from tests.gitlab.checkout import NIGHTLY, PUSH, REAP, REQUEST, Checkout, flat
from tests.unit.gitlab.pipelines import TEMPLATE, cell_jobs, written

LINT = {"lint", "type", "unit", "lowest", "package", "pipelines", "web", "documentation"}
MATRIX = {"plan", "smoke", "matrix", "report"}
NIGHT = {
    *("artifacts", "bootable", "chaos", "contract", "contract with pods", "culprit", "delivery", "embedded", "faults"),
    *("operator", "operator chaos", "operator fields", "operator lifecycle", "package smoke", "pipelines with cells"),
    *("gitlab runner", "kind", "products", "self delivery", "smoke lowest", "tutorial", "versions"),
}
NEEDS: dict[str, list[str] | None] = {  # None: by stages, after everything before
    **{name: [] for name in LINT | NIGHT | {"plan", "reap", "own image"}},
    "smoke": ["plan"],
    "checks": ["plan"],
    "deliver": None,
    "matrix": ["plan", "smoke"],
    "report": None,
    "publish": ["report", "documentation"],
}
STAGES = ["lint", "plan", "smoke", "matrix", "report"]
RUNS_CELLS = ("smoke", "checks")
MERGE_REQUEST_RULE = "$CI_MERGE_REQUEST_IID"


@pytest.fixture(scope="module")
def merged(pristine: Checkout) -> dict[str, Any]:
    """Return the whole pipeline, with includes, inputs and extends resolved."""
    return pristine.merged(REQUEST)


EVENTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "merge request": (REQUEST, LINT | MATRIX),
    "default branch": (PUSH | {"CI_COMMIT_BRANCH": "main"}, LINT | MATRIX | {"publish", "own image"}),
    "night": (NIGHTLY, LINT | MATRIX | NIGHT | {"publish"}),
    "hourly": (REAP, {"reap"}),
    "branch without a merge request": (PUSH | {"CI_COMMIT_BRANCH": "feature"}, set()),
    "a tier for a branch": (
        {"CI_PIPELINE_SOURCE": "web", "CI_COMMIT_BRANCH": "feature", "MATRIX_WANT_TIER": "single"},
        LINT | MATRIX,
    ),
}


@pytest.mark.parametrize("event", EVENTS)
def test_each_event_has_its_jobs_and_all_that_they_need(pristine: Checkout, event: str) -> None:
    variables, expected = EVENTS[event]
    names = {name.partition(": [")[0] for name in pristine.listed(variables)}  # a job with parts is several
    assert names == expected
    for name in names:
        assert set(NEEDS[name] or []) <= names, name


def test_gitlab_takes_the_merged_pipeline(merged: dict[str, Any]) -> None:
    assert limits.broken(merged) == []


def test_no_job_lost_its_needs(merged: dict[str, Any]) -> None:
    jobs = limits.jobs(merged)
    assert {n: limits.needed(j) if "needs" in j else None for n, j in jobs.items()} == NEEDS
    assert [stage for stage in merged["stages"] if stage not in limits.BUILT_IN_STAGES] == STAGES


def test_the_smoke_job_is_what_a_childs_jobs_are(merged: dict[str, Any]) -> None:
    common = child.common()
    for name in RUNS_CELLS:
        job = merged[name]
        assert flat(job["before_script"]) == flat(common[".vmatrix"]["before_script"])
        own = ["exec vmatrix gitlab checks"] if name == "checks" else flat(common[".cell"]["script"])
        assert flat(job["script"]) == own
        assert flat(job["after_script"]) == flat(common[".cell"]["after_script"])
        assert {key: job[key] for key in ("retry", "id_tokens")} == {
            key: common[".cell"][key] for key in ("retry", "id_tokens")
        }
        assert job["artifacts"] == common[".cell"]["artifacts"]
        assert [(c["key"], c["paths"]) for c in job["cache"]] == [
            (common[".cell"]["cache"]["key"], common[".cell"]["cache"]["paths"])
        ]


def test_extends_gave_no_job_what_is_not_its_own(merged: dict[str, Any]) -> None:
    cells = set(RUNS_CELLS)
    for name, job in limits.jobs(merged).items():
        assert ("retry" in job) == (name in cells), name
        assert ("after_script" in job) == (name in cells), name
        assert ("id_tokens" in job) == (name in cells | {"reap"}), name
        assert ("trigger" in job) == (name == "matrix"), name
        assert ("script" in job) != ("trigger" in job), name
        assert ("pages" in job) == (name == "publish"), name
        if "TOX_ENV" in job.get("variables", {}):
            assert not any(key.startswith("MATRIX_") for key in job["variables"]), name
            in_parts = '.venv/bin/python -m ci.nightly run "$TOX_ENV" --part "$PART"'
            call = in_parts if "parallel" in job else '.venv/bin/tox run -e "$TOX_ENV"'
            assert flat(job["script"]) == ["make .venv/bin/tox", call], name


def test_only_jobs_of_a_merge_request_may_be_given_up(merged: dict[str, Any]) -> None:
    for name, job in limits.jobs(merged).items():
        if name != "matrix":  # a trigger job's own word counts for nothing
            assert job["interruptible"] is False, name
        for rule in job["rules"]:
            assert rule.get("interruptible", False) == (rule["if"] == MERGE_REQUEST_RULE), name


def test_the_report_comes_whatever_failed(merged: dict[str, Any]) -> None:
    for rule in merged["report"]["rules"]:
        assert rule["when"] in ("always", "never")
    assert merged["report"]["stage"] == STAGES[-1]


def test_the_child_pipeline_mirrors_itself_in_its_parent_and_gets_its_variables(merged: dict[str, Any]) -> None:
    trigger = merged["matrix"]["trigger"]
    assert trigger["strategy"] == "mirror"
    assert trigger["forward"] == {"yaml_variables": True, "pipeline_variables": True}
    assert trigger["include"] == [{"artifact": "matrix.yml", "job": "plan"}]
    assert "matrix.yml" in merged["plan"]["artifacts"]["paths"]
    assert {"MATRIX_PIPELINE_ID", "MATRIX_PIPELINE_URL"} <= set(merged["matrix"]["variables"])


def test_a_wish_of_a_person_cannot_turn_the_smoke_job_into_another(merged: dict[str, Any]) -> None:
    wish = {"MATRIX_WANT_TIER", "MATRIX_SCHEDULE"}  # a pipeline's variables win over a job's own
    for name, job in limits.jobs(merged).items():
        assert not wish & set(job.get("variables", {})), name


def test_every_tox_environment_exists(merged: dict[str, Any], pristine: Checkout) -> None:
    declared = (pristine.directory / "tox.ini").read_text(encoding="utf-8")
    asked = {
        job["variables"]["TOX_ENV"] for job in limits.jobs(merged).values() if "TOX_ENV" in job.get("variables", {})
    }
    assert asked
    assert all(f"[testenv:{name}]" in declared for name in asked)


def schema_check(*files: Path) -> dict[str, Any]:
    """Return what check-jsonschema says of pipelines' files."""
    words = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", "-o", "json"]
    argv = [str(Path(sys.executable).parent / "check-jsonschema"), *words, *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_file_fits_gitlabs_schema(pristine: Checkout, merged: dict[str, Any], tmp_path: Path) -> None:
    root = pristine.directory
    bodies = []
    for file in (root / TEMPLATE, root / "harness/gitlab/jobs.yml"):
        bodies.append(tmp_path / f"body-of-{file.name}")
        bodies[-1].write_text(file.read_text(encoding="utf-8").partition("\n---\n")[2], encoding="utf-8")
    whole = tmp_path / "merged.yml"
    whole.write_text(yaml.safe_dump(merged), encoding="utf-8")
    made = []
    for count in (0, 1, 60):
        made.append(tmp_path / f"child-{count}.yml")
        pipeline = written(cell_jobs(count), child.Child("n", "image", "tag", "7", {"MATRIX_INFRA": "embedded"}))
        made[-1].write_text(child.text(pipeline), encoding="utf-8")
    found = schema_check(root / ".gitlab-ci.yml", *bodies, whole, *made)
    assert found["status"] == "ok", found


def test_the_schema_check_can_fail(tmp_path: Path) -> None:
    file = tmp_path / "bad.yml"
    file.write_text("cell: {script: [x], retry: {max: 5}}\n", encoding="utf-8")
    assert schema_check(file)["status"] != "ok"


@pytest.mark.parametrize("count", [0, 60])
def test_the_generated_child_is_a_pipeline_of_its_own(pristine: Checkout, tmp_path: Path, count: int) -> None:
    file = pristine.directory / ".gitlab-ci-local" / f"child-{count}.yml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(child.text(written(cell_jobs(count))), encoding="utf-8")
    words = ("--file", str(file.relative_to(pristine.directory)))
    jobs = pristine.listed({"CI_PIPELINE_SOURCE": "parent_pipeline"}, *words)
    assert len(jobs) == (count + 1 if count else 1)
    if count == 60:
        merged = pristine.merged({"CI_PIPELINE_SOURCE": "parent_pipeline"}, *words)
        assert limits.broken(merged) == []
        for one in cell_jobs(count):
            assert flat(merged[one.cell]["script"]) == ["exec vmatrix gitlab cell"]
            assert merged[one.cell]["variables"]["MATRIX_CELL"] == one.cell
