"""Jobs of the real runner in an infra cluster that cannot work as they are set up: one message each, exit code 2.

Nothing is made: neither does a machine appear, nor does the job ask the API for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from harness.errors import EXIT_BAD_INPUT
from harness.kube.resources import ROLE
from tests.gitlab import deployed, foreign
from tests.gitlab.deployed import DEPLOY, NAMESPACE_NAME
from tests.gitlab.faults import FaultNotes
from tests.gitlab.pods_site import Site, Teams, gone
from tests.gitlab.server.model import Pipeline, PipelineJob, Project, State
from tests.gitlab.server.projects import add_project, begin
from tests.gitlab.small import ended, repository

pytestmark = pytest.mark.cells
ACCOUNT = "system:serviceaccount:vmatrix-cells:{}"
OURS = 'service_account = "vmatrix-job"'
AUTHORITY = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"  # of the API, in every pod
OTHER_RELEASE = "v9.9.9"


@dataclass
class Bench:
    """A project whose one job runs a cell."""

    site: Site
    project: Project
    folder: Path

    def refused(self, user: str, tokens: str = "{}", **variables: str) -> PipelineJob:
        """Run the job; return it when it was refused, its user asked for nothing to be made, and nothing is left."""
        since = self.site.there.log.size()
        given = {
            "MATRIX_INFRA": foreign.INFRA,
            "MATRIX_NAMESPACE": NAMESPACE_NAME,
            "MATRIX_TIER": "smoke",
            "XDG_CACHE_HOME": "$CI_PROJECT_DIR/.cache",
            **variables,
        }
        text = yaml.safe_dump(
            {
                "image": {"name": self.site.there.image, "entrypoint": [""]},
                "work": {
                    "tags": ["vmatrix"],
                    "variables": given,
                    "id_tokens": yaml.safe_load(tokens),
                    "script": ["touch vmatrix.yml", "exec vmatrix gitlab cell"],
                },
            }
        )
        count = len(list(self.folder.glob("refused-*")))
        checkout = repository(self.folder / f"refused-{count}", text)
        pipeline = begin(self.site.server, self.project, checkout)
        assert ended(self.site.server, pipeline) == {"work": State.FAILED}
        (work,) = pipeline.jobs
        assert work.exit_code == EXIT_BAD_INPUT, work.said
        assert work.said.count("error (") == 1, work.said
        seen = self.site.there.log.of(user, since)
        assert {ask for ask in seen.asked if ask.verb in ("create", "update", "patch", "delete")} == set()
        gone(self.site)
        return work


@pytest.fixture
def bench(site: Site, tmp_path: Path) -> Bench:
    count = len(site.server.call(lambda forge: forge.projects))
    given = deployed.variables(site.there)
    return Bench(site, add_project(site.server, f"platform/refused-{count}", site.folder, given), tmp_path)


def test_an_image_of_another_release(bench: Bench) -> None:
    work = bench.refused(ACCOUNT.format("vmatrix-job"), MATRIX_REF=OTHER_RELEASE)
    assert "the pipeline is of 9.9.9" in work.said


def test_a_service_account_without_the_role(bench: Bench, site: Site) -> None:
    with other_settings(site, {OURS: 'service_account = "default"'}):
        work = bench.refused(ACCOUNT.format("default"))
    assert "default" in work.said
    assert "virtualmachines" in work.said


@contextmanager
def other_settings(site: Site, changes: dict[str, str]) -> Iterator[None]:
    """Have the runner deployed with other settings for a while."""
    deployed.deploy(site.there, site.server.url, site.runner, changes)
    try:
        yield
    finally:
        deployed.deploy(site.there, site.server.url, site.runner)


def test_a_role_that_lacks_a_verb(bench: Bench, site: Site) -> None:
    api = site.there.cluster
    role = api.get(ROLE, "vmatrix", NAMESPACE_NAME)
    assert role is not None
    rules = [dict(rule) for rule in role["rules"]]
    (machines,) = (rule for rule in rules if rule["resources"] == ["virtualmachines"])
    machines["verbs"] = [verb for verb in machines["verbs"] if verb != "delete"]
    api.merge(ROLE, "vmatrix", {"rules": rules}, NAMESPACE_NAME)
    try:
        work = bench.refused(ACCOUNT.format("vmatrix-job"))
    finally:
        site.there.kubectl("apply", "-k", DEPLOY / "rbac" / "given-namespace")
    assert "delete" in work.said
    assert "virtualmachines" in work.said


def test_a_token_for_another_audience(bench: Bench, site: Site, note: FaultNotes) -> None:
    config = yaml.safe_load(site.there.infra.kubeconfig().read_text(encoding="utf-8"))
    server = config["clusters"][0]["cluster"]["server"]
    work = bench.refused(
        f"gitlab:{bench.project.path}",
        tokens="{MATRIX_ID_TOKEN: {aud: vault}}",
        MATRIX_API_SERVER=server,
        MATRIX_API_CA=AUTHORITY,
    )
    note("audience", work, "401")


def test_a_revision_of_vmatrix_that_is_not_there(site: Site, teams: Teams) -> None:
    team = teams.with_tier("one", vmatrix_ref="no-such-branch")
    pipeline: Pipeline = begin(site.server, team.project, team.checkout)
    states = ended(site.server, pipeline)
    assert states.pop("plan") is State.FAILED
    plan = site.job(pipeline, "plan")
    assert plan.exit_code == EXIT_BAD_INPUT, plan.said
    assert "no branch or tag 'no-such-branch'" in plan.said
    assert not any("Running on" in one.said for one in pipeline.jobs if one.name in ("smoke", "matrix"))
    gone(site)
