"""What a pipeline runs, by what started it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.gitlab.variables import read_job, read_pipeline
from harness.gitlab.wanted import Tiers, Wanted, changed_checks, compared, on_change, wanted
from harness.paths import project_dir
from harness.plan.changed import Changes
from harness.spec import Spec, load_spec

TIERS = Tiers("smoke", "mr", "nightly")
BASE = "a" * 40
REQUEST = {
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": BASE,
}


@pytest.fixture(scope="module")
def spec() -> Spec:
    """Return the project's own matrix."""
    return load_spec(project_dir() / "matrix")


def wish(spec: Spec, variables: Mapping[str, str], tiers: Tiers = TIERS) -> Wanted:
    """Return what a pipeline with these variables runs."""
    return wanted(read_pipeline(variables), tiers, spec)


def test_a_change_runs_what_it_can_affect_but_for_the_smoke_cell_that_has_run(spec: Spec) -> None:
    found = wish(spec, REQUEST)
    assert (found.tier, found.since, found.besides) == ("mr", BASE, "smoke")


def test_a_merged_results_pipeline_compares_to_the_target_it_was_merged_with(spec: Spec) -> None:
    found = wish(spec, {**REQUEST, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "b" * 40})
    assert found.since == "b" * 40


@pytest.mark.parametrize("tier", ["smoke", "mr", "full"])
def test_a_label_asks_for_a_whole_tier(spec: Spec, tier: str) -> None:
    found = wish(spec, {**REQUEST, "CI_MERGE_REQUEST_LABELS": f"bug,matrix::{tier}"})
    assert (found.tier, found.since, found.besides) == (tier, "", "smoke")
    assert f"matrix::{tier}" in found.why


def test_of_several_labels_the_widest_tier_counts(spec: Spec) -> None:
    labels = "matrix::smoke,matrix::full,matrix::mr"
    assert wish(spec, {**REQUEST, "CI_MERGE_REQUEST_LABELS": labels}).tier == "full"


def test_the_night_runs_all_of_its_tier_and_no_cell_is_left_out(spec: Spec) -> None:
    found = wish(spec, {"CI_PIPELINE_SOURCE": "schedule", "MATRIX_SCHEDULE": "nightly"})
    assert (found.tier, found.since, found.besides) == ("nightly", "", "")


def test_a_persons_wish_comes_first(spec: Spec) -> None:
    found = wish(spec, {**REQUEST, "CI_MERGE_REQUEST_LABELS": "matrix::smoke", "MATRIX_WANT_TIER": "lifecycle"})
    assert (found.tier, found.since) == ("lifecycle", "")


def test_a_push_compares_to_the_commit_before(spec: Spec) -> None:
    assert wish(spec, {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BEFORE_SHA": BASE}).since == BASE


@pytest.mark.parametrize("before", ["0" * 40, ""])
def test_a_branchs_first_push_runs_the_whole_tier(spec: Spec, before: str) -> None:
    found = wish(spec, {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BEFORE_SHA": before})
    assert (found.tier, found.since) == ("mr", "")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "CI_PIPELINE_SOURCE is not set"),
        ({"CI_PIPELINE_SOURCE": "merge_request_event"}, "CI_MERGE_REQUEST_IID is not set"),
        (REQUEST | {"CI_MERGE_REQUEST_IID": "../1"}, "CI_MERGE_REQUEST_IID '../1' is not a number"),
        ({"CI_PIPELINE_SOURCE": "schedule"}, "MATRIX_SCHEDULE says what it is for, and it is not set"),
        ({"CI_PIPELINE_SOURCE": "schedule", "MATRIX_SCHEDULE": "nihgtly"}, "'nihgtly' is none"),
        ({**REQUEST, "CI_MERGE_REQUEST_LABELS": "matrix::ful"}, "matrix::ful names the tier 'ful'"),
        ({**REQUEST, "MATRIX_WANT_TIER": "all"}, "MATRIX_WANT_TIER names the tier 'all'"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_a_remedy(
    spec: Spec, variables: Mapping[str, str], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        wish(spec, variables)
    assert said in refused.value.summary
    assert refused.value.hint


def _git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    argv = ["/usr/bin/git", "-C", str(folder), *author, *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def _repository(folder: Path, commits: int = 3) -> list[str]:
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    made = []
    for count in range(commits):
        (folder / f"file{count}").write_text("x", encoding="utf-8")
        _git(folder, "add", "--all")
        _git(folder, "commit", "-q", "-m", f"{count}")
        made.append(_git(folder, "rev-parse", "HEAD"))
    return made


def _other_history(folder: Path) -> str:
    first = _repository(folder)[0]
    _git(folder, "checkout", "-q", "--orphan", "other")
    _git(folder, "commit", "-q", "-m", "Another beginning")
    return first


def _shallow(folder: Path) -> str:
    first = _repository(folder.with_name("origin"))[0]
    _git(folder.parent, "clone", "-q", "--depth", "1", f"file://{folder.with_name('origin')}", str(folder))
    return first


def _lost_objects(folder: Path) -> str:
    first = _repository(folder)[0]
    tree = _git(folder, "rev-parse", f"{first}^{{tree}}")
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    return first


def _force_push(folder: Path) -> str:
    _repository(folder)
    return BASE


def _no_repository(folder: Path) -> str:
    folder.mkdir()
    return BASE


@pytest.mark.parametrize("made", [_force_push, _other_history, _shallow, _lost_objects, _no_repository])
def test_where_git_cannot_compare_the_whole_tier_runs_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[Path], str]
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    base = made(tmp_path / "checkout")
    found, changes = compared(tmp_path / "checkout", Wanted("mr", "since", base, "smoke"))
    assert changes is None
    assert (found.tier, found.since, found.besides) == ("mr", "", "smoke")
    assert found.why.startswith("all of tier mr: what changed is not known: ")


def test_without_git_the_whole_tier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found, changes = compared(tmp_path, Wanted("mr", "since", BASE, "smoke"))
    assert changes is None
    assert found.why.startswith("all of tier mr: what changed is not known: ")


def test_where_git_can_compare_what_changed_counts(tmp_path: Path) -> None:
    first, *_ = _repository(tmp_path / "checkout")
    wish = Wanted("mr", "since", first, "smoke")
    found, changes = compared(tmp_path / "checkout", wish)
    assert found == wish
    assert changes is not None
    assert changes.paths == ("file1", "file2")


def test_a_tier_of_the_pipelines_own_that_does_not_exist_is_refused(spec: Spec) -> None:
    with pytest.raises(BadInput, match="the pipeline's nightly tier names the tier 'night'"):
        wish(spec, REQUEST, Tiers("smoke", "mr", "night"))


def test_a_job_and_its_after_script_have_the_same_run_and_a_retry_another() -> None:
    def run(job: str, host: str = "gitlab.example.org") -> str:
        return read_job({"CI_JOB_ID": job, "CI_PROJECT_DIR": "/", "CI_SERVER_HOST": host}).run

    assert run("12345678901") == run("12345678901")
    assert len({run("12345678901"), run("12345678902"), run("12345678901", "other.example.org")}) == 3
    assert all(re.fullmatch("[a-z0-9]{6}", run(str(number))) for number in range(50))


def test_the_week_runs_what_takes_longest(spec: Spec) -> None:
    found = wish(spec, {"CI_PIPELINE_SOURCE": "schedule", "MATRIX_SCHEDULE": "weekly"})
    assert (found.tier, *found.also) == ("performance", "conformance", "e2e")
    assert {suite for tier in (found.tier, *found.also) for suite in spec.tiers[tier].suites} >= {
        "performance",
        "certification",
        "e2e",
    }


def test_a_week_without_a_tier_is_refused(spec: Spec) -> None:
    none = spec.model_copy(update={"tiers": {n: t for n, t in spec.tiers.items() if t.every_hours != 168}})
    with pytest.raises(BadInput, match=r"no tier of matrix/tiers\.yml runs weekly"):
        wish(none, {"CI_PIPELINE_SOURCE": "schedule", "MATRIX_SCHEDULE": "weekly"})


@pytest.mark.parametrize(
    ("path", "tiers"),
    [
        ("harness/operator/api/rules.py", ["operator", "delivery"]),
        ("deploy/operator/rbac.yml", ["operator", "delivery"]),
        ("matrix/products/operator.yml", ["operator", "delivery"]),
        ("harness/operators.py", []),
        ("playbooks/site.yml", []),
    ],
)
def test_a_change_of_the_operator_asks_for_its_smoke_cell(spec: Spec, path: str, tiers: list[str]) -> None:
    assert on_change(spec, Changes(BASE, ("README.md", path))) == dict.fromkeys(tiers, path)
    assert spec.tiers["operator"].pinned


@pytest.mark.parametrize(
    ("paths", "checks"),
    [
        (["tests/cells/network/test_dns.py"], {"network": ("test_dns",)}),
        (["checks/ours/test_a.py", "checks/ours/test_b.py"], {"ours": ("test_a", "test_b")}),
        (["checks/test_kernel.py", "checks/disk_test.py"], {"own": ("test_kernel", "disk_test")}),
        (["checks/ours/deep/test_a.py", "tests/cells/nodes/x/test_b.py"], {"ours": ("test_a",), "nodes": ("test_b",)}),
        (["checks/naming.py", "checks/ours/conftest.py", "checks/ours/test_a.txt"], {}),
        (["tests/cells/network/conftest.py", "tests/unit/network/test_dns.py", "tests/cells/test_x.py"], {}),
    ],
)
def test_checks_that_a_change_touches_are_known_by_their_suite(
    paths: list[str], checks: dict[str, tuple[str, ...]]
) -> None:
    assert changed_checks(paths) == checks
