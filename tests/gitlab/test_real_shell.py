"""The real runner with executor `shell` against the server: what a runner does of itself, seen from GitLab's side.

Needs VMATRIX_GITLAB_RUNNER; tests/gitlab/test_recorded.py sends what this runner sent, and needs nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gitlab import small
from tests.gitlab.real_runner import RunnerProcess, running
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.model import Pipeline, PipelineJob, Project, State, Variable
from tests.gitlab.server.projects import add_project, add_runner, begin
from tests.gitlab.server.serve import RunningServer, serving
from tests.gitlab.small import ended, job, repository, wait


@dataclass
class Place:
    """A server with a project, and a real runner that asks it for jobs."""

    server: RunningServer
    project: Project
    runner: RunnerProcess
    folder: Path

    def begin(self, text: str, **more: Any) -> Pipeline:
        """Begin the pipeline of a new repository."""
        count = len(list(self.folder.glob("work-*")))
        return begin(self.server, self.project, repository(self.folder / f"work-{count}", text), **more)

    def job(self, pipeline: Pipeline, name: str) -> PipelineJob:
        """Return the latest try of a job."""
        return job(self.server, pipeline, name)

    def wait(self, what: str, ready: Callable[[], object]) -> None:
        """Wait for something of the server's state."""
        wait(self.server, what, ready)

    def ended(self, pipeline: Pipeline) -> dict[str, State]:
        """Wait for a pipeline's end."""
        return ended(self.server, pipeline)


RECORD = "VMATRIX_GITLAB_RECORD"  # a folder for what the runner asked in each test


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    with serving() as server:
        entry = add_runner(server, "vmatrix")
        with running(server.url, entry, tmp_path / "runner") as runner:
            yield Place(server, add_project(server, "team/small", tmp_path), runner, tmp_path)
        if RECORD in os.environ:
            server.recorder.write(Path(os.environ[RECORD]) / f"{request.node.name}.jsonl")
        assert server.site.refused == [], "the runner asked for something that the server does not speak"


def test_a_pipeline_with_artifacts_variables_and_a_cache(place: Place) -> None:
    pipeline = place.begin(small.ARTIFACTS)
    assert place.ended(pipeline) == {"make": State.SUCCESS, "use": State.SUCCESS}
    made, used = place.job(pipeline, "make"), place.job(pipeline, "use")
    assert unpacked(made) == {"made": b"one of push\n"}
    assert unpacked(made, "junit") == {"junit.xml.gz": b"<testsuite/>\n"}
    for line in ("one of push", "by dotenv", "kept", "ended as success", "Job succeeded"):
        assert line in used.said


def test_masked_values_and_tokens_are_not_in_the_trace(place: Place) -> None:
    place.server.call(lambda _: place.project.variables.append(Variable("SECRET", "correct-horse", masked=True)))
    text = """
tell:
  script: ['echo "it is $SECRET"', 'echo "$CI_JOB_TOKEN"', 'echo "$MINE" | cut -d. -f1', 'echo "${#MINE} long"']
  id_tokens: {MINE: {aud: vmatrix}}
"""
    pipeline = place.begin(text)
    assert place.ended(pipeline) == {"tell": State.SUCCESS}
    told = place.job(pipeline, "tell")
    assert "it is [MASKED]" in told.said
    assert "correct-horse" not in told.said
    assert told.token not in told.said
    (length,) = re.findall(r"^(\d+) long", told.said, re.MULTILINE)
    assert int(length) > 300, "the job has a token of GitLab's"


def test_an_exit_code_decides_whether_a_job_is_tried_again(place: Place) -> None:
    pipeline = place.begin(small.RETRIED)
    assert set(place.ended(pipeline).values()) == {State.FAILED}
    tries = [(one.name, one.tries, one.exit_code, one.failure_reason) for one in pipeline.jobs]
    assert sorted(tries) == [
        ("broken", 1, 1, "script_failure"),
        ("busy", 1, 75, "script_failure"),
        ("busy", 2, 75, "script_failure"),
    ]


def test_a_cancelled_job_gets_a_signal_and_its_after_script(place: Place) -> None:
    pipeline = place.begin(small.CANCELLED)
    long = place.job(pipeline, "long")
    place.wait("the script to be at work", lambda: "at work" in long.said)
    place.server.call(lambda forge: forge.cancel_all(pipeline))
    assert place.ended(pipeline) == {"long": State.CANCELED}
    assert "cleaning up after canceled" in long.said


def test_a_newer_commit_of_a_merge_request_ends_the_older_pipeline(place: Place) -> None:
    text = """
workflow: {rules: [{if: '$CI', auto_cancel: {on_new_commit: interruptible}}]}
cell:
  interruptible: true
  script: ['echo begun', 'sleep 600']
  after_script: [echo over]
"""
    known = {"source": "merge_request_event", "ref": "change", "merge_request": "7"}
    old = place.begin(text, **known)
    first = place.job(old, "cell")
    place.wait("the older job to be at work", lambda: "begun" in first.said)
    new = place.begin(text.replace("sleep 600", "sleep 0"), **known)
    assert place.ended(old) == {"cell": State.CANCELED}
    assert place.ended(new) == {"cell": State.SUCCESS}
    assert "over" in first.said


def test_jobs_of_a_resource_group_follow_each_other(place: Place) -> None:
    one = "{resource_group: g, script: ['test ! -e %s', 'touch %s', 'sleep 1', 'rm %s']}"
    here = place.folder / "held"
    text = "\n".join(f"{name}: {one.replace('%s', str(here))}" for name in ("a", "b", "c"))
    assert set(place.ended(place.begin(text)).values()) == {State.SUCCESS}


def test_a_child_pipeline_comes_from_an_artifact_and_ends_its_parent(place: Place) -> None:
    text = """
stages: [plan, matrix, report]
plan:
  stage: plan
  script:
    - |
      echo 'cell: {script: ["echo cell of $TOLD", "exit 3"]}' >child.yml
  artifacts: {paths: [child.yml]}
matrix:
  stage: matrix
  variables: {TOLD: $CI_PIPELINE_ID}
  trigger: {include: [{artifact: child.yml, job: plan}], strategy: mirror, forward: {pipeline_variables: true}}
report: {stage: report, script: [echo all], rules: [{if: $CI, when: always}]}
"""
    pipeline = place.begin(text)
    assert place.ended(pipeline) == {"plan": State.SUCCESS, "matrix": State.FAILED, "report": State.SUCCESS}
    child = place.job(pipeline, "matrix").child
    assert child is not None
    cell = place.job(child, "cell")
    assert f"cell of {pipeline.id}" in cell.said
    assert (cell.exit_code, cell.failure_reason) == (3, "script_failure")
    assert child.variables["TOLD"] == str(pipeline.id)


def test_a_trace_beyond_the_servers_limit_ends_the_job(place: Place) -> None:
    place.server.site.forge.trace_limit = 200_000
    pipeline = place.begin("loud: {script: ['yes some words | head -c 2000000', sleep 600]}")
    assert place.ended(pipeline) == {"loud": State.FAILED}
    assert place.job(pipeline, "loud").failure_reason == "trace_size_exceeded"


def test_artifacts_that_are_too_large_fail_the_job(place: Place) -> None:
    place.server.site.forge.artifact_limit = 1000
    text = "big: {script: ['head -c 200000 /dev/urandom >f'], artifacts: {paths: [f]}}"
    pipeline = place.begin(text)
    assert place.ended(pipeline) == {"big": State.FAILED}
    assert "413" in place.job(pipeline, "big").said


def test_the_scripts_own_limit_leaves_time_for_after_script(place: Place) -> None:
    text = """
slow:
  timeout: 10m
  variables: {RUNNER_SCRIPT_TIMEOUT: 3s, RUNNER_AFTER_SCRIPT_TIMEOUT: 1m}
  script: [echo begun, sleep 600]
  after_script: ['echo "after $CI_JOB_STATUS"']
"""
    pipeline = place.begin(text)
    assert place.ended(pipeline) == {"slow": State.FAILED}
    slow = place.job(pipeline, "slow")
    assert "after timedout" in slow.said
    assert "script timeout" in slow.said


def test_a_server_that_is_away_for_a_while_loses_nothing(place: Place) -> None:
    pipeline = place.begin(
        "on: {script: [echo begun, 'until test -e \"$FLAG\"; do sleep 0.2; done', echo finished]}",
        variables={"FLAG": str(place.folder / "go")},
    )
    on = place.job(pipeline, "on")
    place.wait("the script to be at work", lambda: "begun" in on.said)
    with place.server.unreachable():
        asked = len(place.runner.said)
        (place.folder / "go").touch()
        place.wait("the runner to miss the server", lambda: "error" in place.runner.said[asked:].lower())
    assert place.ended(pipeline) == {"on": State.SUCCESS}
    assert "finished" in on.said


def test_a_commit_that_the_repository_does_not_have_is_the_runners_failure(place: Place) -> None:
    place.begin("ok: {script: ['true']}")
    pipeline = place.server.call(lambda forge: forge.pipelines[0])
    place.ended(pipeline)
    lost = Pipeline(99, place.project, "f" * 40, "main", "push", pipeline.merged)
    place.server.call(lambda forge: forge.begin(lost))
    assert place.ended(lost) == {"ok": State.FAILED}
    assert "couldn't find remote ref refs/pipelines/99" in lost.jobs[0].said
