"""Jobs of the real runner in an infra cluster, with one thing around them broken at a time; no cell yet.

What each job shows is a row of docs/gitlab-faults.md.
"""

from __future__ import annotations

import time

import pytest

from harness.kube.resources import POD
from tests.gitlab.deployed import NAMESPACE_NAME
from tests.gitlab.faults import FaultNotes
from tests.gitlab.pods_site import Site, gone
from tests.gitlab.server.model import State
from tests.gitlab.server.projects import MERGE_REQUEST
from tests.gitlab.small import ended
from tests.gitlab.waiting_job import SHORT, at_work, busy, text, the_pod

pytestmark = pytest.mark.cells
AWAY_SECONDS = 60.0


def test_a_job_that_is_cancelled(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy()))
    found = at_work(site, pipeline)
    site.server.call(lambda forge: forge.cancel_all(pipeline))
    assert ended(site.server, pipeline) == {"work": State.CANCELED}
    gone(site)
    note("cancelled", found, "cleaning up after canceled")


def test_a_merge_request_that_is_updated(site: Site, note: FaultNotes) -> None:
    known = {"source": MERGE_REQUEST, "ref": "change", "merge_request": "7"}
    old = site.begin(text(busy(), "interruptible: true"), **known)
    found = at_work(site, old)
    new = site.begin(text(busy(1), "interruptible: true"), **known)
    assert ended(site.server, old) == {"work": State.CANCELED}
    assert ended(site.server, new) == {"work": State.SUCCESS}
    gone(site)
    note("replaced", found, "cleaning up after canceled")


def test_a_script_that_takes_too_long(site: Site, note: FaultNotes) -> None:
    limits = "variables: {RUNNER_SCRIPT_TIMEOUT: 10s, RUNNER_AFTER_SCRIPT_TIMEOUT: 1m}"
    pipeline = site.begin(text(busy(), limits))
    assert ended(site.server, pipeline) == {"work": State.FAILED}
    gone(site)
    note("script-limit", site.job(pipeline, "work"), "cleaning up after timedout")


def test_a_job_that_takes_too_long(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy(), "timeout: 60s"))
    assert ended(site.server, pipeline) == {"work": State.FAILED}
    gone(site)
    note("job-limit", site.job(pipeline, "work"), "execution took longer than")


def test_a_pod_that_is_deleted(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy(SHORT)))
    first = at_work(site, pipeline)
    site.there.cluster.delete(POD, the_pod(site), NAMESPACE_NAME, grace=0)
    assert ended(site.server, pipeline) == {"work": State.SUCCESS}, "the second try has another pod"
    gone(site)
    note("pod-deleted", first, 'pods "runner-')


def test_an_image_that_is_missing(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy(1), "image: nobody/nothing:1"))
    assert ended(site.server, pipeline) == {"work": State.FAILED}
    gone(site)
    note("image-missing", site.job(pipeline, "work"), "nobody/nothing:1")


def test_artifacts_that_are_too_large(site: Site, note: FaultNotes) -> None:
    limit = site.server.site.forge.artifact_limit
    site.server.site.forge.artifact_limit = 1000
    try:
        pipeline = site.begin(text("'head -c 200000 /dev/urandom >f'", "artifacts: {paths: [f]}"))
        assert ended(site.server, pipeline) == {"work": State.FAILED}
    finally:
        site.server.site.forge.artifact_limit = limit
    gone(site)
    note("artifacts-refused", site.job(pipeline, "work"), "413")


def test_a_server_that_is_away_for_a_minute(site: Site, note: FaultNotes) -> None:
    pipeline = site.begin(text(busy(SHORT)))
    found = at_work(site, pipeline)
    with site.server.unreachable():
        time.sleep(AWAY_SECONDS)
    assert ended(site.server, pipeline) == {"work": State.SUCCESS}
    gone(site)
    note("server-away", found, "finished")
