"""Jobs of the real runner on a bare host that GitLab gave too little: one message each, exit code 2, nothing made.

No cell, and no root.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.errors import EXIT_BAD_INPUT
from harness.infra.host.layout import instances_dir
from tests.gitlab import small
from tests.gitlab.real_runner import running
from tests.gitlab.server.model import PipelineJob, State, Variable
from tests.gitlab.server.projects import MERGE_REQUEST, add_project, add_runner, begin
from tests.gitlab.server.serve import serving
from tests.gitlab.small import ended

JOB = """\
work:
  variables: {MATRIX_INFRA: kubevirt, MATRIX_TIER: smoke, COLUMNS: "300"}
  script: ['touch vmatrix.yml', 'exec "$PROGRAM" gitlab COMMAND']
"""
REQUEST = {"source": MERGE_REQUEST, "ref": "change", "merge_request": "7"}


def refused(
    folder: Path, *given: Variable, command: str = "cell", tags: tuple[str, ...] = (), **more: str
) -> PipelineJob:
    """Run a job with a command of vmatrix; return it when it was refused and this host has no more instances."""
    before = sorted(instances_dir("embedded").glob("*"))
    repository = small.repository(folder / "work", JOB.replace("COMMAND", command))
    program = {"PROGRAM": str(Path(sys.executable).parent / "vmatrix")}
    with serving() as server, running(server.url, add_runner(server, *tags), folder / "runner"):
        project = add_project(server, "team/small", folder, given)
        pipeline = begin(server, project, repository, variables=program, **more)
        assert ended(server, pipeline) == {"work": State.FAILED}
        (work,) = pipeline.jobs
    assert work.exit_code == EXIT_BAD_INPUT, work.said
    assert sorted(instances_dir("embedded").glob("*")) == before
    assert not list((folder / "runner" / "builds").glob("**/runs")), "no run has begun"
    return work


def test_a_runner_without_tags(tmp_path: Path) -> None:
    work = refused(tmp_path, command="doctor")
    assert "this job's runner has no tags" in work.said
    assert "add the tag vmatrix to the runner for cells" in work.said


def test_a_protected_variable_that_a_merge_request_does_not_get(tmp_path: Path) -> None:
    server = Variable("MATRIX_API_SERVER", "https://127.0.0.1:1", protected=True)
    work = refused(tmp_path, server, tags=("vmatrix",), **REQUEST)
    assert work.said.count("error (") == 1
    assert "merge requests do not get protected variables" in work.said


def test_a_fork_without_secrets(tmp_path: Path) -> None:
    server = Variable("MATRIX_API_SERVER", "https://127.0.0.1:1", masked=True)
    work = refused(tmp_path, server, tags=("vmatrix",), fork="somebody/small", **REQUEST)
    assert work.said.count("error (") == 1
    assert "somebody/small is a fork, whose pipelines get no variables" in work.said
