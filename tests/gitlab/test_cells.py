"""The pipelines with real cells: passed, failed by the product, failed by the infrastructure, cancelled, killed.

Whole pipelines run in gitlab-ci-local; what it does not do (retry, cancel) is done by the tests as a runner would.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from harness.errors import EXIT_RETRY
from harness.events import read
from harness.gitlab import limits
from harness.infra.cluster.capacity import free_for_machines
from harness.infra.host.layout import instances_dir
from harness.infra.host.status import State
from harness.kube import Cluster
from harness.kube.resources import POD
from harness.plan.tiers import tier_cells
from harness.proc import run as command
from harness.providers.embedded import EmbeddedProvider, embedded_provider
from harness.report.results import RunResult, load
from harness.spec import load_spec
from tests.embedded.run.runs import change, wait_until
from tests.gitlab.checkout import HISTORY, NIGHTLY, Checkout
from tests.gitlab.runner import CANCELED, Job

pytestmark = pytest.mark.cells
SECONDS = 1800.0
STEP_SECONDS = 600.0
# One machine each, and few checks: what is looked at is the pipeline.
SHORT = {"MATRIX_ONLY": "nodes", "VMATRIX_TIMEOUT_SCALE": "3", **HISTORY}
BREAK = """\
---
- name: Break one cell on purpose
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask the impossible
      ansible.builtin.fail: {msg: no such flux}
      when: cluster_kube_proxy_mode == "iptables"

"""
Start = Callable[..., Job]


@pytest.fixture(autouse=True)
def _nothing_left(project: Checkout) -> Iterator[None]:
    """Look, after each test, whether anything of its jobs is left on this host."""
    yield
    runs = [folder.name for folder in (project.directory / "runs").glob("*/")]
    assert runs, "a test without a run shows nothing"
    places = [
        *(folder.name for folder in instances_dir("embedded").glob("*")),
        *command(["ip", "-o", "link"], timeout=10).stdout.split(),
    ]
    places += command(["ip", "netns", "list"], timeout=10).stdout.split()
    assert [place for place in places for run in runs if run in place] == []


def processes(word: str) -> list[str]:
    """Return the command lines that name a word."""
    lines = command(["ps", "-e", "-ww", "-o", "pid=,args="], timeout=10).stdout.splitlines()
    return [line for line in lines if word in line and "ps -e" not in line]


@pytest.fixture
def two(project: Checkout) -> Checkout:
    """Return a checkout with a tier of two cells, whose product fails in one of them."""
    project.two_cells()
    project.only_cells()
    playbook = project.directory / "playbooks" / "cluster.yml"
    playbook.write_text(BREAK + playbook.read_text(encoding="utf-8").removeprefix("---\n"), encoding="utf-8")
    project.commit("Two cells")
    return project


def results(project: Checkout) -> dict[str, RunResult]:
    """Return every run of a checkout's jobs, by the cell that it was of."""
    found = [load(file.parent) for file in (project.directory / "runs").glob("*/results.jsonl")]
    return {run.cells[0].id: run for run in found}


def links(project: Checkout, job: str) -> list[str]:
    """Return the labels on a job's page."""
    file = project.directory / ".gitlab-ci-local" / "artifacts" / job / "annotations.json"
    sections: dict[str, list[dict[str, dict[str, str]]]] = json.loads(file.read_text(encoding="utf-8"))
    return [entry["external_link"]["label"] for entries in sections.values() for entry in entries]


def test_a_merge_requests_pipeline_runs_a_real_smoke_cell(project: Checkout) -> None:
    project.only_cells()
    project.commit("Cells alone")
    (project.directory / "README.md").write_text("# Other words\n", encoding="utf-8")
    project.commit("Other words")
    ended = project.call(variables=project.request(**SHORT), seconds=SECONDS)
    assert ended.code == 0, ended.said
    (cell,) = tier_cells(load_spec(project.directory / "matrix"), "smoke", "embedded")
    (run,) = results(project).values()
    assert (run.cells[0].id, run.cells[0].outcome, run.exit_code) == (cell.id, "passed", 0)
    assert run.cells[0].last_checks
    assert "affects a cell" in ended.stdout, "the child pipeline said why it has no cell"
    assert f"{cell.id}: passed" in links(project, "smoke")
    assert "set MATRIX_NOTE_TOKEN" in ended.stdout
    assert "1 of 1 cell passed" in (project.directory / "public" / "summary.md").read_text(encoding="utf-8")


FLAKY = """\
\"\"\"A check of the project, which fails in every fourth of its runs.\"\"\"

from pathlib import Path

from harness.checks import Hosts

RUNS = Path({runs!r})


def test_the_kubelet_answers(hosts: Hosts) -> None:
    with RUNS.open("a", encoding="utf-8") as file:
        file.write("x")
    for host in hosts.values():
        assert host.service("kubelet").is_running
    assert len(RUNS.read_text(encoding="utf-8")) % 4 > 0
"""


def test_a_check_that_a_merge_request_changes_runs_twenty_times_over_a_kept_cell(
    project: Checkout, tmp_path: Path
) -> None:
    project.only_cells()
    tiers = project.directory / "matrix" / "tiers.yml"
    content = yaml.safe_load(tiers.read_text(encoding="utf-8"))
    content["tiers"]["smoke"]["pinned"] = content["tiers"]["single"]["pinned"]
    tiers.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    project.commit("One machine")
    (project.directory / "checks").mkdir()
    (project.directory / "checks" / "test_kubelet.py").write_text(
        FLAKY.format(runs=str(tmp_path / "runs-of-the-check")), encoding="utf-8"
    )
    project.commit("A check")
    ended = project.call("checks", variables=project.request(**SHORT), seconds=SECONDS)
    assert ended.code == 1, ended.said
    assert "own: test_kubelet, 20 times over" in ended.stdout
    assert "15 of 20 runs passed" in ended.said
    assert "exit code 1: 5" in ended.said
    (run,) = results(project).values()
    assert {step.name for step in run.cells[0].steps if step.outcome == "passed"} >= {"provision", "deploy"}


def test_the_night_goes_on_when_the_product_fails_in_one_cell(two: Checkout) -> None:
    given = NIGHTLY | SHORT | {"MATRIX_NIGHTLY_TIER": "two"}
    ended = two.call("--concurrency", "1", variables=given, seconds=SECONDS)
    passed, broken = tier_cells(load_spec(two.directory / "matrix"), "two", "embedded")
    found = results(two)
    assert len(found) == 3, ended.said
    failed = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith(" FAIL")]
    assert failed == [broken.id], (
        "gitlab-ci-local does not carry it to the parent: `strategy: mirror` is looked at elsewhere"
    )
    assert (found[passed.id].exit_code, found[broken.id].exit_code) == (0, 1)
    (failure,) = found[broken.id].cells[0].last_failures
    assert (failure.name, failure.blame) == ("deploy", "product")
    assert "no such flux" in failure.summary
    assert any(label.startswith("product: deploy: ") for label in links(two, broken.id))
    assert not any(label.startswith("product:") for label in links(two, passed.id))
    for cell in (passed.id, broken.id):
        kept = two.directory / ".gitlab-ci-local" / "artifacts" / cell / "runs" / found[cell].run
        assert (kept / "junit.xml").is_file()
        assert (kept / cell / "logs" / "deploy.log").is_file()
        assert not list(kept.rglob("id_ed25519*"))
    report = (two.directory / "public" / "summary.md").read_text(encoding="utf-8")
    assert broken.id in report
    assert (two.directory / "public" / "index.html").stat().st_size > 10_000


@pytest.fixture
def start(two: Checkout, tmp_path: Path) -> Iterator[Start]:
    """Return what starts a cell's job of the night's child pipeline; one that still runs is killed and ended."""
    variables = NIGHTLY | SHORT | {"MATRIX_NIGHTLY_TIER": "two"}
    ended = two.call("plan", variables=variables, seconds=SECONDS)
    assert ended.code == 0, ended.said
    child = two.merged({"CI_PIPELINE_SOURCE": "parent_pipeline"}, "--file", "matrix.yml")
    started: list[Job] = []

    def begin(number: int = 0, **more: str) -> Job:
        names = [name for name, job in limits.jobs(child).items() if "timeout" in job]
        job_id = str(10**10 + secrets.randbelow(10**9))
        own = {"CI_JOB_ID": job_id, "CI_JOB_URL": f"https://gitlab.example.org/p/-/jobs/{job_id}"}
        job = Job(two, child[names[number]], {**SHORT, **own, **more}, tmp_path / job_id)
        job.begin()
        started.append(job)
        return job

    yield begin
    for job in started:
        if job.step is not None and job.step.poll() is None:
            job.kill()
            job.after("failed", STEP_SECONDS)


def own_links(job: Job) -> list[str]:
    """Return the labels that the job's page would show."""
    content: dict[str, Any] = json.loads((job.checkout.directory / "annotations.json").read_text(encoding="utf-8"))
    return [entry["external_link"]["label"] for entries in content.values() for entry in entries]


def test_a_job_that_is_cancelled_in_the_middle_of_a_deployment_leaves_nothing(start: Start) -> None:
    job = start()
    job.run.wait_for("step-start", "deploy", seconds=STEP_SECONDS)
    log = job.run.results / job.definition["variables"]["MATRIX_CELL"] / "logs" / "deploy.log"
    wait_until(lambda: log.exists() and "TASK [" in log.read_text(), "the playbook is at work", seconds=STEP_SECONDS)
    job.cancel()
    code = job.after(CANCELED, STEP_SECONDS)  # begins at once, beside the run's own end
    assert code == 0, job.said("after_script") + job.said()
    assert job.end(seconds=1) == 128 + signal.SIGTERM, "the script had ended before after_script did"
    (cell,) = load(job.run.results).cells
    assert cell.outcome == "interrupted"
    assert read(job.run.results)[-1]["event"] == "run-end"
    assert (job.run.results / "junit.xml").is_file()
    objects = (log.parent / "objects.yml").read_text(encoding="utf-8")  # collected before they went
    assert f"vmatrix.dev/job: '{job.variables['CI_JOB_ID']}'" in objects, "whoever finds it knows whose it was"
    assert f"{cell.id}: interrupted" in own_links(job)
    assert processes(job.run.id) == []
    assert not list(job.run.results.rglob("id_ed25519*"))
    assert job.after(CANCELED, STEP_SECONDS) == 0, "a second time nothing is left to do"


def test_a_job_that_is_cancelled_while_its_infra_comes_up_leaves_nothing(start: Start) -> None:
    job = start()
    job.run.wait_for("run-start", seconds=STEP_SECONDS)
    job.cancel()
    assert job.after(CANCELED, STEP_SECONDS) == 0, job.said("after_script") + job.said()
    assert job.end(seconds=1) == 128 + signal.SIGTERM
    assert [event["event"] for event in read(job.run.results)] == ["run-start", "signal", "run-end"]
    assert processes(job.run.id) == []
    assert job.after(CANCELED, STEP_SECONDS) == 0, "a second time nothing is left to do"


def test_a_job_that_is_killed_is_ended_by_its_after_script(start: Start) -> None:
    job = start()
    job.run.wait_for("step-start", "provision", "login", seconds=STEP_SECONDS)
    job.kill()
    assert job.after("failed", STEP_SECONDS) == 0, job.said("after_script")
    said = job.said("after_script")
    assert f"gone: namespace vmatrix-{job.definition['variables']['MATRIX_CELL']}-{job.run.id}-1" in said
    (cell,) = load(job.run.results).cells
    assert cell.outcome == "unfinished"
    assert (job.run.results / "junit.xml").is_file()
    assert (job.run.results / "summary.md").is_file()
    assert (job.run.results / cell.id / "logs" / "objects.yml").is_file()
    assert processes(job.run.id) == []
    assert not list(job.run.results.rglob("id_ed25519*"))


@pytest.fixture
def full() -> Iterator[tuple[EmbeddedProvider, Callable[[], object]]]:
    """Return an infrastructure that is not the jobs' own and has no room, and what makes room in it."""
    infra = embedded_provider(f"gl-{os.getpid()}", Store(), progress=silent)
    try:
        infra.up()
        cluster = Cluster.from_kubeconfig(infra.kubeconfig())
        claimed = f"{free_for_machines(Cluster.from_kubeconfig(infra.kubeconfig())).memory_mib - 1024}Mi"
        container = {"name": "idle", "image": "none", "resources": {"requests": {"memory": claimed}}}
        meta = {"name": "claims-memory", "namespace": "default"}
        cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})
        wait_until(
            lambda: free_for_machines(Cluster.from_kubeconfig(infra.kubeconfig())).memory_mib <= 1024,
            "the memory is claimed",
            seconds=STEP_SECONDS,
        )
        yield infra, lambda: cluster.delete(POD, "claims-memory", "default", grace=0)
    finally:
        infra.down()


def test_a_job_without_room_asks_for_a_retry_and_leaves_an_infra_that_is_not_its_own(
    start: Start, two: Checkout, full: tuple[EmbeddedProvider, Callable[[], object]]
) -> None:
    infra, _ = full
    change(two.directory / "matrix" / "timeouts.yml", ("timeouts", "admission"), 2)
    job = start(VMATRIX_INFRA_NAME=infra.layout.name)
    assert job.end(STEP_SECONDS) == EXIT_RETRY, job.said()
    assert job.after("failed", STEP_SECONDS) == 0, job.said("after_script")
    assert any("there was no room" in label and label.startswith("infra: ") for label in own_links(job))
    assert EXIT_RETRY in job.definition["retry"]["exit_codes"], "GitLab starts it once more"
    assert job.definition["retry"]["max"] == 1
    assert infra.status().state is State.UP


def test_the_retry_of_a_job_is_another_run_and_passes_once_the_infra_has_recovered(
    start: Start, two: Checkout, full: tuple[EmbeddedProvider, Callable[[], object]]
) -> None:
    infra, make_room = full
    timeouts = two.directory / "matrix" / "timeouts.yml"
    usual = yaml.safe_load(timeouts.read_text(encoding="utf-8"))["timeouts"]["admission"]
    change(timeouts, ("timeouts", "admission"), 2)
    failing = start(VMATRIX_INFRA_NAME=infra.layout.name)
    assert failing.end(STEP_SECONDS) == EXIT_RETRY, failing.said()
    assert failing.after("failed", STEP_SECONDS) == 0, failing.said("after_script")

    make_room()
    change(timeouts, ("timeouts", "admission"), usual)
    again = start(VMATRIX_INFRA_NAME=infra.layout.name, MATRIX_ONLY="provision")
    assert again.end(STEP_SECONDS) == 0, again.said()
    assert again.after("success", STEP_SECONDS) == 0, again.said("after_script")
    assert again.run.id != failing.run.id
    assert load(again.run.results).exit_code == 0
