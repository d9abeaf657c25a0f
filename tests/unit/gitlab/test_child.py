"""The child pipeline: what GitLab accepts of it, and what each job promises."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.errors import EXIT_RETRY, BadInput
from harness.gitlab import child, limits
from harness.gitlab.child import (
    CellJob,
    Child,
    PipelineScope,
    Tiers,
    changed_checks,
    compared,
    job_times,
    on_change,
    scope_of,
)
from harness.gitlab.job import read_job, read_pipeline
from harness.paths import project_dir
from harness.plan.changed import Changes
from harness.plan.tiers import tier_cells
from harness.schedule.durations import estimate
from harness.spec import Spec, lines, load_spec
from harness.spec.suites import CERTIFICATION, E2E, IDEMPOTENCE
from tests.unit.gitlab.pipelines import TIMES, cell_jobs, template, written

NO_SUITES: tuple[str, ...] = ()
LARGE = 500  # cells: beyond every tier's budget, and beyond GitLab's 200 permutations and 50 needs


@pytest.fixture(scope="module")
def spec() -> Spec:
    """Return the project's own matrix."""
    return load_spec(project_dir() / "matrix")


@pytest.mark.parametrize("count", [0, 1, 60, LARGE])
def test_gitlab_takes_it_whatever_its_size(count: int) -> None:
    made = written(cell_jobs(count))
    size = len(child.text(made).encode())
    assert limits.broken(made, size=size) == []
    assert size < limits.FILE_BYTES / 5


def test_no_name_stands_twice_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "matrix.yml"
    file.write_text(child.text(written(cell_jobs(60))), encoding="utf-8")
    _, problems = lines.read(file)
    assert problems == []


def test_one_job_per_cell_then_one_that_keeps_the_results() -> None:
    made = written(cell_jobs(60))
    jobs = limits.jobs(made)
    assert list(jobs) == [*(one.cell for one in cell_jobs(60)), child.REPORT]
    assert jobs[child.REPORT]["when"] == "always"
    assert "needs" not in jobs[child.REPORT]
    assert made["stages"].index(jobs[child.REPORT]["stage"]) == len(made["stages"]) - 1


def test_without_a_cell_one_job_says_so_whatever_the_reason_is_written_with() -> None:
    why = "nothing: docs/it's $HOME `x`.md\nsecond line"
    made = written([], nothing=why)
    (job,) = limits.jobs(made).values()
    (script,) = job["script"]
    said = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, timeout=10, check=True)
    assert said.stdout == why + "\n"


TEXTS = [
    *("a$b", "$$", "${HOME}", "%x% $HOME", 'it\'s "q"', "a\nb", "\x1b[31m", "- a: b #c", "x" * 5000),
    "caf\N{REPLACEMENT CHARACTER}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_jobs_get_a_text_as_it_is(text: str) -> None:
    cells = [replace(one, why=text) for one in cell_jobs(1)]
    made = written(cells, Child(text, variables={"MATRIX_ONLY": text}))
    assert limits.broken(made) == []
    (job, _) = limits.jobs(made).values()
    for value in (job["variables"]["MATRIX_WHY"], made["variables"]["MATRIX_ONLY"]):
        assert re.sub(r"\$\$", lambda _: "$", value) == text, "GitLab makes one $ of two"
    name = made["workflow"]["name"]
    assert not set("$%\n") & set(name), "GitLab expands variables in it"
    assert len(name) <= limits.PIPELINE_NAME


def test_a_name_that_gitlab_refuses_is_a_broken_limit() -> None:
    made = written(cell_jobs(1)) | {"workflow": {"name": "x" * 256}}
    assert limits.broken(made) == ["the pipeline's name has 256 characters; GitLab accepts 255"]


def test_it_runs_only_as_a_child() -> None:
    assert written([])["workflow"]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "parent_pipeline"'}]


@pytest.mark.parametrize(("request_", "given_up"), [("7", True), ("", False)])
def test_only_a_merge_requests_jobs_may_be_given_up_for_a_newer_commit(request_: str, given_up: bool) -> None:
    made = written(cell_jobs(2), Child("n", merge_request=request_))
    assert made["default"]["interruptible"] is given_up
    assert not any("interruptible" in job for job in limits.jobs(made).values())


def test_a_job_is_retried_only_for_the_runner_an_infra_that_may_recover_and_a_run_that_was_ended() -> None:
    retry = child.common()[".cell"]["retry"]
    assert retry["max"] == 1
    assert retry["exit_codes"] == [EXIT_RETRY, 128 + signal.SIGTERM]
    assert set(retry["when"]) == {"runner_system_failure", "scheduler_failure", "api_failure"}


def test_a_jobs_script_ends_in_the_run_itself() -> None:
    common = child.common()[".cell"]
    assert common["script"] == ["exec vmatrix gitlab cell"]
    assert common["after_script"][-1] == "vmatrix gitlab after"
    assert common["artifacts"]["when"] == "always"
    assert common["artifacts"]["reports"] == {"junit": "runs/*/junit.xml", "annotations": "annotations.json"}


def test_artifacts_hold_no_key_and_no_kubeconfig() -> None:
    paths = child.common()[".cell"]["artifacts"]["paths"]
    secrets = ("runs/abc123/cell/id_ed25519", "runs/abc123/cell/kubeconfig", "runs/abc123/cell/attempt-2/id_ed25519")
    for secret in secrets:
        assert not any(Path(secret).match(p.rstrip("/")) or Path(secret).parent.match(p.rstrip("/")) for p in paths)


def test_nothing_lets_one_cell_wait_for_another() -> None:
    made = child.text(written(cell_jobs(3))) + (project_dir() / "templates/vmatrix.yml").read_text(encoding="utf-8")
    assert "resource_group" not in made


def test_an_environment_is_only_to_be_seen() -> None:
    for request_, folder in (("7", "cells/mr-7/"), ("", "cells/")):
        (job, _) = limits.jobs(written(cell_jobs(1), Child("n", merge_request=request_))).values()
        environment = job["environment"]
        assert environment["name"].startswith(folder)
        assert environment["action"] == "access"
        assert "on_stop" not in environment


def test_every_planned_cells_limits_leave_room_for_its_own_deadlines(spec: Spec) -> None:
    cells = [
        (cell, spec.tiers[tier].suites)
        for tier in spec.tiers
        for infra in spec.infras
        for cell in tier_cells(spec, tier, infra)
    ]
    assert len(cells) > 50
    for cell, suites in cells:
        times = job_times(cell, suites, spec.timeouts, estimate(cell))
        assert times.job > times.script + times.after
        assert times.script * 60 > spec.timeouts.admission + spec.timeouts.phase_deploy + 2 * estimate(cell)
        assert times.after * 60 >= 2 * (spec.timeouts.collect + spec.timeouts.teardown)
        if len(cell.phases) > 1:
            assert times.script * 60 > spec.timeouts.admission + spec.timeouts.phase_later


def test_slower_infra_stretches_the_limits(spec: Spec) -> None:
    (cell, *_) = tier_cells(spec, "smoke", "embedded")
    usual = job_times(cell, NO_SUITES, spec.timeouts, 100)
    slow = job_times(cell, NO_SUITES, spec.timeouts.scaled(2), 100)
    slower = job_times(cell, NO_SUITES, spec.timeouts, 1000)
    assert slow.script > usual.script
    assert slower.script == usual.script + 45
    assert slow.after == usual.after * 2


def test_whole_sets_of_specs_have_their_time_after_each_phase(spec: Spec) -> None:
    (cell, *_) = (one for one in tier_cells(spec, "lifecycle", "embedded") if len(one.phases) > 1)
    phases, timeouts = sum(phase.cluster for phase in cell.phases), spec.timeouts
    assert phases > 1
    usual, whole, both = (
        job_times(cell, suites, timeouts, 100) for suites in (["nodes"], ["nodes", CERTIFICATION], [CERTIFICATION, E2E])
    )
    more = phases * (timeouts.upstream_specs + timeouts.conformance_overrun) / 60
    assert whole.script - usual.script == pytest.approx(more, abs=1)
    assert both.script - usual.script == pytest.approx(2 * more, abs=1)
    assert whole.after == usual.after
    assert whole.job - whole.script == usual.job - usual.script


def test_a_phase_that_runs_twice_has_its_time_twice(spec: Spec) -> None:
    (cell, *_) = (one for one in tier_cells(spec, "lifecycle", "embedded") if len(one.phases) > 1)
    twice = replace(cell, phases=tuple(replace(phase, idempotent=True) for phase in cell.phases))
    once = replace(cell, phases=tuple(replace(phase, idempotent=False) for phase in cell.phases))
    runs, usual, unasked = (
        job_times(one, suites, spec.timeouts, 100).script
        for one, suites in ((twice, [IDEMPOTENCE]), (once, [IDEMPOTENCE]), (twice, NO_SUITES))
    )
    later = (len(cell.phases) - 1) * spec.timeouts.phase_later
    assert runs - usual == pytest.approx((spec.timeouts.phase_deploy + later) / 60, abs=1)
    assert unasked == usual


def test_the_smoke_jobs_written_limits_are_enough_for_its_tier(spec: Spec) -> None:
    _, body = template()
    job = body["$[[ inputs.prefix ]]smoke"]
    for infra in spec.infras:
        for cell in tier_cells(spec, "smoke", infra):
            times = job_times(cell, spec.tiers["smoke"].suites, spec.timeouts, estimate(cell))
            assert limits.minutes(job["variables"]["RUNNER_SCRIPT_TIMEOUT"]) >= times.script
            assert limits.minutes(job["variables"]["RUNNER_AFTER_SCRIPT_TIMEOUT"]) >= times.after
            assert limits.minutes(job["timeout"]) >= times.job


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parallel": {"matrix": [{"A": ["x"] * 20, "B": ["y"] * 11}]}}, "becomes 220 jobs"),
        ({"parallel": 201}, "becomes 201 jobs"),
        ({"needs": ["nobody"]}, "needs 'nobody', which is not a job"),
        ({"stage": "deploy"}, "its stage 'deploy' is not in `stages`"),
        ({"resource_group": "one"}, "its resource_group"),
        ({"timeout": "110m"}, "is not longer than its script's and after_script's (110m)"),
    ],
)
def test_a_broken_limit_is_named(change: dict[str, object], said: str) -> None:
    made = written(cell_jobs(1))
    name = cell_jobs(1)[0].cell
    made[name] |= change
    (problem,) = limits.broken(made)
    assert problem.startswith(f"job {name!r}: ")
    assert said in problem


def test_too_many_needs_are_named_also_when_one_need_becomes_many_jobs() -> None:
    made = {
        "stages": ["test"],
        "cell": {"script": ["x"], "parallel": {"matrix": [{"A": list("abcdefgh"), "B": list("1234567")}]}},
        "report": {"script": ["x"], "needs": [{"job": "cell", "artifacts": True}]},
    }
    assert limits.broken(made) == ["job 'report': needs 56 jobs; GitLab accepts 50: order by stages instead"]
    assert limits.broken(made | {"report": {"script": ["x"], "needs": ["cell"] * 1}})


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"x" * 256: {}}, "its name has 256 characters"),
        ({"x" * 129: {}, "other": {"needs": ["x" * 129]}}, "its name has 129 characters; GitLab drops the pipeline"),
        ({"cell: [1.36, ha]": {}}, "one suite with others"),
        ({"cell 1/2": {}}, "one suite with others"),
        ({"cell": {}, "Cell": {}}, "exists 2 times, apart from capitals"),
    ],
)
def test_a_name_that_gitlab_would_lose_is_named(names: dict[str, dict[str, object]], said: str) -> None:
    (problem,) = limits.broken({"stages": ["test"], **{n: {"script": ["x"], **more} for n, more in names.items()}})
    assert said in problem


def test_a_file_that_is_too_large_and_one_without_a_job_are_refused() -> None:
    assert limits.broken({"stages": []}) == ["the pipeline has no job; GitLab refuses an empty one"]
    (problem,) = limits.broken(written(cell_jobs(1)), size=limits.FILE_BYTES + 1)
    assert "5000001 bytes" in problem


def test_a_reason_with_a_dollar_stays_what_it_is() -> None:
    made = written([CellJob("c", "mr", TIMES, "a$b affects os x")])
    assert made["c"]["variables"]["MATRIX_WHY"] == "a$$b affects os x"


def test_scripts_stay_readable_and_nothing_is_an_anchor() -> None:
    text = child.text(written(cell_jobs(2)))
    assert "&id" not in text
    assert "  - |\n" in text
    assert yaml.safe_load(text)[".cell"]["after_script"][0] == child.common()[".vmatrix"]["before_script"]


TIERS = Tiers("smoke", "mr", "nightly")
BASE = "a" * 40
REQUEST = {
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": BASE,
}


def wish(spec: Spec, variables: Mapping[str, str], tiers: Tiers = TIERS) -> PipelineScope:
    """Return what a pipeline with these variables runs."""
    return scope_of(read_pipeline(variables), tiers, spec)


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
    found, changes = compared(tmp_path / "checkout", PipelineScope("mr", "since", base, "smoke"))
    assert changes is None
    assert (found.tier, found.since, found.besides) == ("mr", "", "smoke")
    assert found.why.startswith("all of tier mr: what changed is not known: ")


def test_without_git_the_whole_tier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found, changes = compared(tmp_path, PipelineScope("mr", "since", BASE, "smoke"))
    assert changes is None
    assert found.why.startswith("all of tier mr: what changed is not known: ")


def test_where_git_can_compare_what_changed_counts(tmp_path: Path) -> None:
    first, *_ = _repository(tmp_path / "checkout")
    wish = PipelineScope("mr", "since", first, "smoke")
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
