"""A pipeline of one job that does nothing but wait in a pod, as the jobs of cells end and are tried again."""

from __future__ import annotations

import json

from harness.gitlab.child import common
from tests.gitlab.pods_site import Site
from tests.gitlab.server.model import Pipeline, PipelineJob
from tests.gitlab.small import wait

LONG, SHORT = 600, 30  # seconds of work: for ever, and until a fault is over
USUAL = f"""\
  tags: [vmatrix]
  after_script: ['echo "cleaning up after $CI_JOB_STATUS"']
  retry: {json.dumps(common()[".cell"]["retry"])}
"""


def text(script: str, *more: str) -> str:
    """Return a pipeline of one job."""
    return f"work:\n{USUAL}  script: [{script}]\n" + "".join(f"  {line}\n" for line in more)


def busy(seconds: int = LONG) -> str:
    """Return a script that waits."""
    return f"echo at work, sleep {seconds}, echo finished"


def at_work(site: Site, pipeline: Pipeline) -> PipelineJob:
    """Wait until the script is at work."""
    found = site.job(pipeline, "work")
    wait(site.server, "the script to be at work", lambda: "\nat work" in found.said)
    return found


def the_pod(site: Site) -> str:
    """Return the name of the one pod of a job."""
    (name,) = site.there.job_pods
    return name
