"""Jobs of the real runner in an infra cluster whose cells are there, too: something breaks while the cell lives.

Cells that are only to be somewhere in their life have a playbook that does nothing but wait or fail.
"""

from __future__ import annotations

import signal
import time
from dataclasses import replace

import pytest
import yaml

from harness.kube.resources import POD, ROLE_BINDING, VM
from tests.gitlab.deployed import EVICTED_LEFT, NAMESPACE_NAME
from tests.gitlab.faults import FaultNotes
from tests.gitlab.foreign import Foreign
from tests.gitlab.pods_site import SECONDS, Site, Teams, gone
from tests.gitlab.server.model import Pipeline, PipelineJob, State, Variable
from tests.gitlab.server.projects import begin
from tests.gitlab.small import ended, wait

pytestmark = pytest.mark.cells
PLAYBOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.{task}
"""
WAITS = PLAYBOOK.format(task="wait_for: {timeout: 600}")
FAILS = PLAYBOOK.format(task="fail: {msg: this deployment fails}")
NOTHING_LEFT = "nothing of run"  # what after_script says at its end
CHECK = "import time\n\n\ndef test_slow(guest: object) -> None:\n    time.sleep(600)\n"
INTO_CHECK_SECONDS = 10.0  # from the end of the deployment
TOKEN_SECONDS = 150  # more than until a cell is deployed, less than its deployment takes
OUTLIVES = PLAYBOOK.format(task=f"wait_for: {{timeout: {TOKEN_SECONDS}}}")
AUTHORITY = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"  # of the API, in every pod


def test_a_job_that_is_cancelled_while_its_cell_is_provisioned(site: Site, teams: Teams, note: FaultNotes) -> None:
    note("cell-provision", cancelled(site, teams.with_tier("one", WAITS), "provision ..."), NOTHING_LEFT)


def test_a_job_that_is_cancelled_while_its_cell_is_deployed(site: Site, teams: Teams, note: FaultNotes) -> None:
    note("cell-deploy", cancelled(site, teams.with_tier("one", WAITS), "deploy ..."), NOTHING_LEFT)


def test_a_job_that_is_cancelled_while_its_cell_is_torn_down(site: Site, teams: Teams, note: FaultNotes) -> None:
    note("cell-teardown", cancelled(site, teams.with_tier("one", FAILS), "teardown ..."), NOTHING_LEFT)


def test_a_job_that_is_cancelled_while_its_cell_is_checked(site: Site, teams: Teams, note: FaultNotes) -> None:
    pipeline, smoke = so_far(site, teams.with_tier("one", check=CHECK), "deploy ok")
    time.sleep(INTO_CHECK_SECONDS)
    assert ": collect" not in smoke.said, "the check goes on"
    note("cell-checks", after_cancelling(site, pipeline, smoke), NOTHING_LEFT)


def test_a_pod_that_is_evicted_while_its_cell_is_deployed(site: Site, teams: Teams, note: FaultNotes) -> None:
    pipeline, smoke = so_far(site, teams.with_tier("one", WAITS), "deploy ...")
    pod = the_pod(site)
    site.there.evict(pod)
    wait(site.server, "the job to end", lambda: smoke.state.done, seconds=SECONDS)
    assert (smoke.state, smoke.exit_code) == (State.FAILED, 128 + signal.SIGTERM), smoke.said
    site.there.forget_evicted(pod)
    tried_again(site, pipeline, smoke)
    note("cell-evicted", smoke, NOTHING_LEFT, left=EVICTED_LEFT)


def test_a_pod_that_is_deleted_while_its_cell_is_deployed(site: Site, teams: Teams, note: FaultNotes) -> None:
    pipeline, smoke = so_far(site, teams.with_tier("one", WAITS), "deploy ...")
    assert len(site.there.cluster.list(VM, NAMESPACE_NAME).items) == 1
    site.there.cluster.delete(POD, the_pod(site), NAMESPACE_NAME, grace=0)
    wait(site.server, "the job to end", lambda: smoke.state.done, seconds=SECONDS)
    tried_again(site, pipeline, smoke)
    note("cell-pod-deleted", smoke, 'pods "runner-')


def test_a_token_that_expires_while_its_cell_is_deployed(site: Site, teams: Teams, note: FaultNotes) -> None:
    team = teams.with_tier("one", OUTLIVES)
    let_in(site, team)
    usual = site.server.site.payload
    site.server.site.payload = replace(usual, token_seconds=TOKEN_SECONDS)
    try:
        pipeline, smoke = so_far(site, team, "deploy ...")
        wait(site.server, "the job to end", lambda: smoke.state.done, seconds=SECONDS)
    finally:
        site.server.site.payload = usual
    site.server.call(lambda forge: forge.cancel_all(pipeline))
    gone(site)
    note("token-expired", smoke, "401")


def let_in(site: Site, team: Foreign) -> None:
    """Have a team's jobs log in with their ID tokens, with the role that service accounts have."""
    config = yaml.safe_load(site.there.infra.kubeconfig().read_text(encoding="utf-8"))
    server = config["clusters"][0]["cluster"]["server"]
    team.project.variables += [Variable("MATRIX_API_SERVER", server), Variable("MATRIX_API_CA", AUTHORITY)]
    group = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Group",
        "name": f"vmatrix:project:{team.project.id}",
    }
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "vmatrix"}
    name = f"project-{team.project.id}"
    made = ROLE_BINDING.manifest(name, NAMESPACE_NAME, labels={}, roleRef=role, subjects=[group])
    site.there.cluster.apply(ROLE_BINDING, made)


def the_pod(site: Site) -> str:
    (name,) = site.there.job_pods
    return name


def tried_again(site: Site, pipeline: Pipeline, first: PipelineJob) -> None:
    """Wait until a job is tried once more, end that, and look for what is left of both."""
    assert first.retried, first.said[-2000:]
    site.server.call(lambda forge: forge.cancel_all(pipeline))
    ended(site.server, pipeline, seconds=SECONDS)
    gone(site)


def so_far(site: Site, team: Foreign, line: str) -> tuple[Pipeline, PipelineJob]:
    """Begin the team's pipeline, and wait until its first cell's job has said a line of its cell."""
    pipeline = begin(site.server, team.project, team.checkout)
    smoke = site.job(pipeline, "smoke")
    wait(site.server, line, lambda: f": {line}" in smoke.said or pipeline.state.done, seconds=SECONDS)
    assert f": {line}" in smoke.said, [(one.name, one.said[-2000:]) for one in pipeline.jobs]
    return pipeline, smoke


def cancelled(site: Site, team: Foreign, line: str) -> PipelineJob:
    """Cancel the team's pipeline when its first cell's job has said a line of its cell; return the job at its end."""
    return after_cancelling(site, *so_far(site, team, line))


def after_cancelling(site: Site, pipeline: Pipeline, smoke: PipelineJob) -> PipelineJob:
    """Cancel a pipeline; return its first cell's job at its end, when nothing is left."""
    site.server.call(lambda forge: forge.cancel_all(pipeline))
    ended(site.server, pipeline, seconds=SECONDS)
    assert smoke.state is State.CANCELED
    gone(site)
    return smoke
