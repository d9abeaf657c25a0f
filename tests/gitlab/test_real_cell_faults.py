"""Jobs of the real runner in an infra cluster whose cells are there, too: something breaks while the cell lives.

Cells that are only to be somewhere in their life have a playbook that does nothing but wait or fail.
"""

from __future__ import annotations

import pytest

from tests.gitlab.faults import FaultNotes
from tests.gitlab.foreign import Foreign
from tests.gitlab.pods_site import SECONDS, Site, Teams, gone, site, smallest, teams, there
from tests.gitlab.server.model import Pipeline, PipelineJob, State
from tests.gitlab.server.projects import begin
from tests.gitlab.small import ended, wait

__all__ = ["site", "smallest", "teams", "there"]
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


def test_a_job_that_is_cancelled_while_its_cell_is_provisioned(site: Site, teams: Teams, note: FaultNotes) -> None:
    note("cell-provision", cancelled(site, teams.with_tier("one", WAITS), "provision ..."), NOTHING_LEFT)


def test_a_job_that_is_cancelled_while_its_cell_is_deployed(site: Site, teams: Teams, note: FaultNotes) -> None:
    note("cell-deploy", cancelled(site, teams.with_tier("one", WAITS), "deploy ..."), NOTHING_LEFT)


def test_a_job_that_is_cancelled_while_its_cell_is_torn_down(site: Site, teams: Teams, note: FaultNotes) -> None:
    note("cell-teardown", cancelled(site, teams.with_tier("one", FAILS), "teardown ..."), NOTHING_LEFT)


def so_far(site: Site, team: Foreign, line: str) -> tuple[Pipeline, PipelineJob]:
    """Begin the team's pipeline, and wait until its first cell's job has said a line of its cell."""
    pipeline = begin(site.server, team.project, team.checkout)
    smoke = site.job(pipeline, "smoke")
    wait(site.server, line, lambda: f": {line}" in smoke.said or pipeline.state.done, seconds=SECONDS)
    assert f": {line}" in smoke.said, [(one.name, one.said[-2000:]) for one in pipeline.jobs]
    return pipeline, smoke


def cancelled(site: Site, team: Foreign, line: str) -> PipelineJob:
    """Cancel the team's pipeline when its first cell's job has said a line of its cell; return the job at its end."""
    pipeline, smoke = so_far(site, team, line)
    site.server.call(lambda forge: forge.cancel_all(pipeline))
    ended(site.server, pipeline, seconds=SECONDS)
    assert smoke.state is State.CANCELED
    gone(site)
    return smoke
