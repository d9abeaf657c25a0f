"""Jobs of the real runner in an infra cluster whose pod, node, runner or commit goes away; no cell yet.

What each job shows is a row of docs/gitlab-faults.md.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from harness.infra.pods import NAME, NAMESPACE_NAME
from harness.kube.resources import NODE, POD, VMI
from harness.until import Deadline, NotYet, until
from tests.gitlab import deployed
from tests.gitlab.faults import FaultNotes
from tests.gitlab.pods_site import Site, gone
from tests.gitlab.server.model import Pipeline, PipelineJob, State
from tests.gitlab.small import ended, wait
from tests.gitlab.waiting_job import SHORT, at_work, busy, text, the_pod

pytestmark = pytest.mark.cells
AWAY_SECONDS = 60.0
SOON_SECONDS = 120.0  # until something follows from a fault
RUNNER_ARGV = b"gitlab-runner\0run\0--working-directory"
STUCK = "stuck_or_timeout_failure"  # what GitLab calls a job of which no runner has told for an hour


def second_try(site: Site, pipeline: Pipeline) -> None:
    """Wait for a job's second try, and end it."""
    wait(site.server, "a second try", lambda: len(pipeline.jobs) == 2 and "\nat work" in pipeline.jobs[1].said)
    site.server.call(lambda forge: forge.cancel_all(pipeline))
    assert ended(site.server, pipeline) == {"work": State.CANCELED}


def test_a_pod_that_is_evicted(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy()))
    first, pod = at_work(site, pipeline), the_pod(site)
    site.there.evict(pod)
    wait(site.server, "the job to end", lambda: first.state.done, seconds=SOON_SECONDS)
    assert (first.state, first.exit_code) == (State.FAILED, 128 + signal.SIGTERM), first.said
    second_try(site, pipeline)
    site.there.forget_evicted(pod)
    gone(site)
    note("evicted", first, "cleaning up after failed", left=deployed.EVICTED_LEFT)


def test_a_script_that_needs_more_memory_than_there_is(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text("echo at work, tail /dev/zero, echo finished", "timeout: 180s"))
    assert ended(site.server, pipeline) == {"work": State.FAILED}
    gone(site)
    found = pipeline.jobs[0]
    assert "\nfinished" not in found.said
    note("out-of-memory", found, "Killed")


def test_a_node_that_is_away_for_a_minute(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy(SHORT)))
    found = at_work(site, pipeline)
    api, node = site.there.cluster, site.there.infra.layout.pods_node
    switch(site, "pause")
    try:
        begun = time.monotonic()

        def lost() -> bool | NotYet:
            (ready,) = (c for c in (api.get(NODE, node) or {})["status"]["conditions"] if c["type"] == "Ready")
            return ready["status"] == "Unknown" or NotYet(ready["status"])

        until(lost, deadline=Deadline.after(AWAY_SECONDS), what="the node to be missed", interval=1)
        time.sleep(max(0.0, AWAY_SECONDS - (time.monotonic() - begun)))
    finally:
        switch(site, "unpause")
    assert ended(site.server, pipeline) == {"work": State.SUCCESS}
    gone(site)
    note("node-away", found, "finished")


def switch(site: Site, verb: str) -> None:
    """Have the machine that runs the pods stand still, or go on."""
    path = VMI.path(NAMESPACE_NAME, NAME, verb).replace(f"/{VMI.group}/", f"/subresources.{VMI.group}/")
    answer = site.there.cluster.send("PUT", path, body={})
    assert answer.code < 300, answer


def test_a_runner_that_is_killed_and_starts_again(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy(), "timeout: 90s"))
    lost = at_work(site, pipeline)
    pod = the_pod(site)
    os.kill(runner_process(), signal.SIGKILL)
    other = site.begin(text(busy(1)))
    assert ended(site.server, other) == {"work": State.SUCCESS}, "it takes jobs again"
    assert lost.state is State.RUNNING, "GitLab hears nothing of it"

    def over() -> bool | NotYet:
        found = site.there.cluster.get(POD, pod, deployed.NAMESPACE_NAME)
        assert found is not None
        reasons = [one.get("reason") for one in found["status"]["conditions"]]
        return "PodFailed" in reasons or NotYet(str(reasons))

    until(over, deadline=Deadline.after(SOON_SECONDS), what="the pod to end with its job's time", interval=1)
    site.server.call(lambda forge: forge.fail(lost, STUCK))  # GitLab's own look at jobs, an hour later
    site.there.cluster.delete(POD, pod, deployed.NAMESPACE_NAME, grace=0)
    gone(site)
    note("runner-killed", lost, "at work", left="its pod")


def runner_process() -> int:
    """Return the process of the one runner in a pod: they share this host's kernel."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if words.startswith(RUNNER_ARGV):
            found.append(int(process.name))
    (only,) = found
    return only


def test_a_trace_that_is_too_long(site: Site, note: FaultNotes) -> None:
    limit = site.server.site.forge.trace_limit
    site.server.site.forge.trace_limit = 200_000
    try:
        pipeline = site.begin(text("'yes some words | head -c 2000000', sleep 600"))
        assert ended(site.server, pipeline) == {"work": State.FAILED}
    finally:
        site.server.site.forge.trace_limit = limit
    gone(site)
    found = site.job(pipeline, "work")
    assert "some words" not in found.said, "GitLab keeps nothing of what is too much at once"
    note("trace-limit", found, 'Executing "step_script"')


def test_a_commit_that_the_repository_does_not_have(site: Site, note: FaultNotes) -> None:
    known = site.begin(text("'true'"))
    ended(site.server, known)
    lost = Pipeline(next_number(site), site.project, "f" * 40, "main", "push", known.merged)
    site.server.call(lambda forge: forge.begin(lost))
    assert ended(site.server, lost) == {"work": State.FAILED}
    gone(site)
    first: PipelineJob = lost.jobs[0]
    note("commit-missing", first, "find remote ref")


def next_number(site: Site) -> int:
    return site.server.call(lambda forge: next(forge.numbers))
