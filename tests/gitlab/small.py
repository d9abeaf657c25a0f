"""Small repositories with a pipeline of their own, and waits for what becomes of their jobs on the server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.until import Deadline, NotYet, until
from tests.gitlab.checkout import VARIABLES, Checkout
from tests.gitlab.server.model import Pipeline, PipelineJob, State
from tests.gitlab.server.serve import RunningServer

SECONDS = 300.0  # against hanging: jobs of small pipelines take seconds

# Pipelines of which what a real runner sent is kept, too.
ARTIFACTS = """\
stages: [build, test]
variables: {OVERALL: one}
make:
  stage: build
  tags: [vmatrix]
  script: ['echo "$OVERALL of $CI_PIPELINE_SOURCE" >made', 'echo FOUND=dotenv >env', 'mkdir -p kept; echo kept >kept/f',
           'echo "<testsuite/>" >junit.xml']
  cache: {key: k, paths: [kept]}
  artifacts: {paths: [made], reports: {dotenv: env, junit: junit.xml}}
use:
  stage: test
  needs: [make]
  script: ['cat made', 'echo "by $FOUND"', 'cat kept/f', 'git log --oneline | wc -l']
  cache: {key: k, paths: [kept], policy: pull}
  after_script: ['echo "ended as $CI_JOB_STATUS"']
"""
RETRIED = """\
busy: {script: ['exit 75'], retry: {max: 1, when: [runner_system_failure], exit_codes: [75]}}
broken: {script: ['exit 1'], retry: {max: 1, when: [runner_system_failure], exit_codes: [75]}}
"""
CANCELLED = """\
long:
  script:
    - |
      echo at work
      exec sleep 600
  after_script: ['echo "cleaning up after $CI_JOB_STATUS"']
"""


def repository(directory: Path, pipeline: str) -> Checkout:
    """Make a repository with a pipeline, and one commit."""
    directory.mkdir(parents=True)
    subprocess.run(["/usr/bin/git", "init", "-q", "-b", "main", str(directory)], check=True, timeout=60)
    made = Checkout(directory)
    (directory / ".git" / "info" / "exclude").write_text(f"{VARIABLES}\n.gitlab-ci-local/\n", encoding="utf-8")
    made.git("remote", "add", "origin", "https://gitlab.example.org/team/small.git")
    (directory / ".gitlab-ci.yml").write_text(pipeline, encoding="utf-8")
    made.commit("A pipeline")
    made.git("update-ref", "refs/remotes/origin/main", "HEAD")
    return made


def job(server: RunningServer, pipeline: Pipeline, name: str) -> PipelineJob:
    """Return the latest try of a job."""
    return server.call(lambda _: next(one for one in pipeline.latest if one.name == name))


def wait(server: RunningServer, what: str, ready: Callable[[], object], *, seconds: float = SECONDS) -> None:
    """Wait until something holds of the server's state."""

    def look() -> bool | NotYet:
        if server.call(lambda _: bool(ready())):
            return True
        shown = server.call(lambda forge: [(one.name, str(one.state), one.said[-300:]) for one in forge.jobs])
        return NotYet(str(shown))

    until(look, deadline=Deadline.after(seconds), what=what, interval=0.2)


def ended(server: RunningServer, pipeline: Pipeline, *, seconds: float = SECONDS) -> dict[str, State]:
    """Wait for a pipeline's end, and return its jobs' states."""
    wait(server, "the pipeline to end", lambda: pipeline.state.done, seconds=seconds)
    return server.call(lambda _: {one.name: one.state for one in pipeline.latest})
