"""A team's pipeline that includes the template twice, and whose own defaults are not the jobs' of either product."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.gitlab import limits
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from tests.gitlab.checkout import HISTORY, Checkout

SECONDS = 300.0
OURS, THEIRS = "ours-", "theirs-"
PUSH = {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main", "MATRIX_WANT_TIER": "single"}
JOBS = ("plan", "smoke", "matrix", "report", "publish")
STAGES = "stages: [plan, smoke, matrix, report]\n"
# Every key of `default` that GitLab knows, with a value that a job would show.
# https://docs.gitlab.com/ci/yaml/#default
DEFAULTS: dict[str, Any] = {
    "after_script": ["echo foreign"],
    "artifacts": {"paths": ["foreign/"], "expire_in": "1 day"},
    "before_script": ["echo foreign"],
    "cache": {"key": "foreign", "paths": ["foreign/"]},
    "hooks": {"pre_get_sources_script": ["echo foreign"]},
    "id_tokens": {"FOREIGN": {"aud": "https://foreign.example.org"}},
    "identity": "google_cloud",
    "image": "foreign:1",
    "interruptible": True,
    "retry": {"max": 2},
    "services": ["redis:7"],
    "timeout": "7 minutes",
}
GLOBALS = ("after_script", "before_script", "cache", "image", "services")  # the same, at the top of the file


def team(folder: Path, pristine: Checkout, pipeline: str) -> Checkout:
    """Make a team's repository with two products; include:project asks a GitLab, and a local copy is read alike."""
    made = Checkout(folder)
    source = yaml.safe_load((pristine.directory / "matrix/product.yml").read_text(encoding="utf-8"))
    files = {".gitlab-ci.yml": pipeline}
    for name in ("ours", "theirs"):
        product = source | {"product": source["product"] | {"name": name, "directory": f"{name}/deploy"}}
        files[f"{name}/product.yml"] = yaml.safe_dump(product)
        for phase in source["product"]["phases"].values():
            files[f"{name}/deploy/{phase['playbook']}"] = "- hosts: all  # cluster_kubeconfig_path\n"
    for name in ("templates/vmatrix.yml", "harness/gitlab/jobs.yml"):
        files[name] = (pristine.directory / name).read_text(encoding="utf-8")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    subprocess.run(["/usr/bin/git", "init", "-q", "-b", "main", str(folder)], check=True, timeout=60)
    made.git("remote", "add", "origin", "https://gitlab.example.org/team/products.git")
    made.commit("Two products")
    return made


def included(origin: Path, **more: Any) -> str:
    """Return a pipeline that includes the template for each product, with settings that differ in everything."""
    one = {
        "product": "ours/product.yml",
        "infra": "embedded",
        "tier": "single",
        "image": "ours:1",
        "namespace": "ours-cells",
        "runner_tag": "ours-runner",
        "prefix": OURS,
    }
    other = {
        "product": "theirs/product.yml",
        "infra": "kubevirt",
        "tier": "mr",
        "image": "theirs:2",
        "namespace": "theirs-cells",
        "runner_tag": "theirs-runner",
        "prefix": THEIRS,
    }
    common = {"smoke_tier": "smoke", "vmatrix_project": str(origin), "vmatrix_ref": "main"}
    include = [{"local": "/templates/vmatrix.yml", "inputs": common | inputs} for inputs in (one, other)]
    return STAGES + yaml.safe_dump({"include": include, **more}, sort_keys=False)


@pytest.fixture(scope="module")
def two(pristine: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a team's repository with two products."""
    return team(tmp_path_factory.mktemp("two") / "products", pristine, included(pristine.directory))


def test_each_product_has_all_jobs_with_its_own_settings(two: Checkout) -> None:
    assert set(two.listed(PUSH)) == {prefix + job for prefix in (OURS, THEIRS) for job in JOBS}
    merged = two.merged(PUSH)
    assert limits.broken(merged) == []
    for prefix, infra, image in ((OURS, "embedded", "ours:1"), (THEIRS, "kubevirt", "theirs:2")):
        for job in ("plan", "smoke", "report", "reap"):
            found = merged[prefix + job]
            given = {name: found["variables"][f"MATRIX_{name}"] for name in ("PRODUCT", "INFRA", "NAMESPACE")}
            name = prefix.rstrip("-")
            assert given == {"PRODUCT": f"{name}/product.yml", "INFRA": infra, "NAMESPACE": f"{name}-cells"}
            assert found["image"]["name"] == image
        assert merged[f"{prefix}matrix"]["trigger"]["include"] == [
            {"artifact": f"{prefix}matrix.yml", "job": f"{prefix}plan"}
        ]


def test_both_products_are_planned_each_with_its_settings(two: Checkout, pristine: Checkout) -> None:
    spec = load_spec(pristine.directory / "matrix")
    ended = two.call(f"{OURS}plan", f"{THEIRS}plan", "--concurrency", "1", variables=PUSH, seconds=SECONDS)
    assert ended.code == 0, ended.said
    for prefix, infra in ((OURS, "embedded"), (THEIRS, "kubevirt")):
        made = yaml.safe_load((two.directory / f"{prefix}matrix.yml").read_text(encoding="utf-8"))
        assert limits.broken(made) == []
        jobs = [job for job in limits.jobs(made).values() if "timeout" in job]
        assert {job["variables"]["MATRIX_CELL"] for job in jobs} == {c.id for c in tier_cells(spec, "single", infra)}
        name = prefix.rstrip("-")
        assert made["variables"]["MATRIX_PRODUCT"] == f"{name}/product.yml"
        assert made["variables"]["MATRIX_INFRA"] == infra
        assert made["variables"]["MATRIX_NAMESPACE"] == f"{name}-cells"
        assert made["default"]["tags"] == [f"{name}-runner"]
        assert all(job["environment"]["name"].startswith(f"{prefix}cells/") for job in jobs)


def test_each_product_has_a_report_of_its_own(two: Checkout) -> None:
    for prefix in (OURS, THEIRS):
        ended = two.call(f"{prefix}report", variables=PUSH | HISTORY, seconds=SECONDS)
        assert ended.code == 0, ended.said
        assert f"{prefix}runs/history.jsonl: " in ended.stdout
        assert (two.directory / f"{prefix}public" / "index.html").is_file()
        assert json.loads((two.directory / f"{prefix}public" / "annotations.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def alone(two: Checkout) -> dict[str, Any]:
    """Return the jobs of both products where the including file says nothing else."""
    return limits.jobs(two.merged(PUSH))


def _jobs_beside(two: Checkout, folder: Path, pristine: Checkout, **more: Any) -> dict[str, Any]:
    pipeline = included(pristine.directory, **more, own={"stage": "plan", "script": ["true"]})
    return limits.jobs(team(folder / "products", pristine, pipeline).merged(PUSH))


def test_nothing_of_the_including_files_default_gets_into_a_job(
    two: Checkout, alone: dict[str, Any], pristine: Checkout, tmp_path: Path
) -> None:
    found = _jobs_beside(two, tmp_path, pristine, default=DEFAULTS)
    own = found.pop("own")
    shown = {key for key in DEFAULTS if key in own}
    assert shown >= {"before_script", "after_script", "cache", "image", "services"}, "it can fail"
    assert found == alone


@pytest.mark.parametrize("key", GLOBALS)
def test_nothing_of_the_including_files_top_gets_into_a_job(
    two: Checkout, alone: dict[str, Any], pristine: Checkout, tmp_path: Path, key: str
) -> None:
    found = _jobs_beside(two, tmp_path, pristine, **{key: DEFAULTS[key]})
    assert key in found.pop("own"), "it can fail"
    assert found == alone


def test_the_runners_tags_are_the_including_files_where_the_template_has_none(
    two: Checkout, alone: dict[str, Any], pristine: Checkout, tmp_path: Path
) -> None:
    found = _jobs_beside(two, tmp_path, pristine, default={"tags": ["docker"]})
    for prefix, runner in ((OURS, "ours-runner"), (THEIRS, "theirs-runner")):
        assert {job: found[prefix + job].get("tags") for job in ("plan", "smoke", "report", "publish", "reap")} == {
            **{job: ["docker"] for job in ("plan", "report", "publish")},
            **{job: [runner] for job in ("smoke", "reap")},
        }


def test_of_the_including_files_variables_a_job_gets_settings_and_no_others(pristine: Checkout, tmp_path: Path) -> None:
    shown = 'echo "of them: $VMATRIX_TIMEOUT_SCALE $MATRIX_CELL $GIT_STRATEGY $FOREIGN."'
    pipeline = included(
        pristine.directory,
        variables={"VMATRIX_TIMEOUT_SCALE": "3", "MATRIX_CELL": "c", "GIT_STRATEGY": "none", "FOREIGN": "x"},
    )
    checkout = team(tmp_path / "products", pristine, pipeline)
    template = checkout.directory / "templates/vmatrix.yml"
    text = template.read_text(encoding="utf-8")
    begin = "    - vmatrix gitlab generate"
    template.write_text(text.replace(begin, f"    - '{shown}'\n{begin}"), encoding="utf-8")
    ended = checkout.call(f"{OURS}plan", variables=PUSH, seconds=SECONDS)
    assert "of them: 3   ." in ended.stdout, ended.said
