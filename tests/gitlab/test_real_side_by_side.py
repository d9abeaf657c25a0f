"""Two merge requests at once, by the real runner in an infra cluster with room for three machines: four cells wait."""

from __future__ import annotations

import json

import pytest

from harness.kube.resources import RESOURCE_QUOTA, VMI
from harness.until import Deadline, NotYet, until
from tests.gitlab.deployed import DEPLOY, NAMESPACE_NAME
from tests.gitlab.pods_site import SECONDS, Site, Teams, gone
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.model import Pipeline, PipelineJob
from tests.gitlab.test_real_pods import merge_request, passed

pytestmark = pytest.mark.cells
ROOM = 3  # machines at a time
MACHINE_MIB = 2900  # of the cells' one machine: 2560 MiB of its own, and its launcher
JOB_MIB, RUNNER_MIB = 320 + 128, 128  # requests of a job's pod and the runner's (tests/gitlab/deployed.py)
LONGEST_SECONDS = 2 * SECONDS


def test_two_merge_requests_share_the_room_and_do_not_disturb_each_other(site: Site, teams: Teams) -> None:
    limit(site, RUNNER_MIB + 4 * JOB_MIB + ROOM * MACHINE_MIB + MACHINE_MIB // 2)
    try:
        pipelines = {number: merge_request(site, teams.with_tier("two"), number) for number in ("7", "8")}
        most = most_machines(site, [*pipelines.values()])
        for pipeline in pipelines.values():
            passed(site, pipeline)
    finally:
        site.there.kubectl("apply", "-k", DEPLOY / "rbac" / "given-namespace")
    cells = [one for pipeline in pipelines.values() for one in cells_of(site, pipeline)]
    assert len(cells) == 4
    assert most == ROOM, "all of the room was used, and no more"
    waited = [one.name for one in cells if "waiting: it needs" in one.said]
    assert waited, "a job says in its trace what it waits for"
    for number, pipeline in pipelines.items():
        notes = [note for (_, of), found in site.server.site.notes.items() if of == number for note in found]
        (own,) = (note["body"] for note in notes if pipeline.sha[:7] in note["body"])
        assert "3 of 3 cells passed" in own
        assert pipeline.sha[:7] in unpacked(site.job(pipeline, "report"))["public/index.html"].decode()
    gone(site)


def limit(site: Site, memory_mib: int) -> None:
    """Let the pods of the jobs' namespace have so much memory."""
    hard = {"spec": {"hard": {"requests.memory": f"{memory_mib}Mi"}}}
    words = ("patch", "resourcequota", "vmatrix", "-n", NAMESPACE_NAME, "--type", "merge", "-p", json.dumps(hard))
    site.there.kubectl(*words)
    assert site.there.cluster.get(RESOURCE_QUOTA, "vmatrix", NAMESPACE_NAME) is not None


def most_machines(site: Site, pipelines: list[Pipeline]) -> int:
    """Wait for the end of pipelines; return how many machines there were at once, at most."""
    most = 0

    def over() -> bool | NotYet:
        nonlocal most
        most = max(most, len(site.there.cluster.list(VMI, NAMESPACE_NAME).items))
        states = site.server.call(lambda _: [pipeline.state for pipeline in pipelines])
        return all(state.done for state in states) or NotYet(str(states))

    until(over, deadline=Deadline.after(LONGEST_SECONDS), what="both pipelines to end", interval=2)
    return most


def cells_of(site: Site, pipeline: Pipeline) -> list[PipelineJob]:
    """Return the jobs of the child pipeline that had a cell."""
    child = site.job(pipeline, "matrix").child
    assert child is not None
    return [one for one in child.latest if "provision ok" in one.said]
