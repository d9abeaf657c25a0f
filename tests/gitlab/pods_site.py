"""A server, and the real runner in an infra cluster with executor `kubernetes`, for the tests of a session.

Needs VMATRIX_GITLAB_RUNNER, root and the built artifacts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.cell.existing import CellSelector, find
from harness.kube.resources import SECRET, VM
from harness.model import Cell
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from harness.spec.project import matrix_dir
from harness.until import Deadline, NotYet, until
from tests.gitlab import deployed, foreign, real_runner
from tests.gitlab.checkout import Checkout
from tests.gitlab.deployed import NAMESPACE_NAME, RUNNER_NAME, Place
from tests.gitlab.foreign import Foreign
from tests.gitlab.inside import listening_for_pods
from tests.gitlab.server.model import KnownRunner, Pipeline, PipelineJob, Project, Variable
from tests.gitlab.server.projects import add_project, add_runner, begin
from tests.gitlab.server.serve import RunningServer, serving
from tests.gitlab.small import job, repository

SECONDS = 1800.0  # against hanging: a pipeline with a cell
GONE_SECONDS = 120.0


@dataclass
class Site:
    """A server with projects, and a runner in the cluster that asks it for jobs."""

    server: RunningServer
    there: Place
    project: Project
    folder: Path
    runner: KnownRunner

    def begin(self, text: str, **more: object) -> Pipeline:
        """Begin the pipeline of a new repository, whose jobs have vmatrix's image."""
        count = len(list(self.folder.glob("work-*")))
        made = repository(self.folder / f"work-{count}", f"image: {self.there.image}\n{text}")
        return begin(self.server, self.project, made, **more)  # type: ignore[arg-type]

    def job(self, pipeline: Pipeline, name: str) -> PipelineJob:
        """Return the latest try of a job."""
        return job(self.server, pipeline, name)


@pytest.fixture(scope="session")
def smallest(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    """Return the cell of the team's tier `one`."""
    made = foreign.clusters(tmp_path_factory.mktemp("cell"), suites=["nodes"])
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as given:
        given.setenv("VMATRIX_PROJECT", str(made.directory))
        (found,) = tier_cells(load_spec(matrix_dir()), "one", foreign.INFRA)
    return found


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory, smallest: Cell) -> Iterator[Place]:
    real_runner.program()
    folder = tmp_path_factory.mktemp("pods")
    with deployed.place(folder, [smallest]) as found:
        yield found


@pytest.fixture(scope="session")
def site(there: Place) -> Iterator[Site]:
    with serving(listening=listening_for_pods(there.infra, there.cluster)) as server:
        issued = replace(server.site.payload, issuer=there.issuer.url, signing=there.issuer)
        server.site.payload = issued
        runner = add_runner(server, "vmatrix")
        deployed.deploy(there, server.url, runner)
        yield Site(server, there, add_project(server, "platform/small", there.folder), there.folder, runner)
        assert server.site.refused == [], "something asked for what the server does not speak"


@dataclass
class Teams:
    """Makes projects of teams, whose jobs' cells are in the cluster of their pods."""

    site: Site
    vmatrix: Path
    folder: Path

    def with_tier(self, tier: str, playbook: str = "", check: str = "", **more: str) -> Foreign:
        """Return a project with one cell for every pipeline and for the night, and a tier for changes.

        Args:
            playbook: what deploys clusters, in place of vmatrix's own.
            check: a check of the project's own, in place of the suite `nodes`.
            more: inputs of the include.
        """
        tiers = {"smoke_tier": "one", "tier": tier, "nightly_tier": "one"}
        inputs = {"infra": foreign.INFRA, "image": self.site.there.image, "namespace": NAMESPACE_NAME, **tiers, **more}
        deployed.have_disks(foreign.SYSTEMS[tier])
        folder = self.folder / f"team-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        checkout = foreign.clusters(folder, suites=["slow" if check else "nodes"], inputs=inputs)
        if check:
            own = checkout.directory / "checks" / "slow" / "test_slow.py"
            own.parent.mkdir(parents=True)
            own.write_text(check, encoding="utf-8")
            checkout.commit("A check")
        if playbook:
            (checkout.directory / "deploy" / "cluster.yml").write_text(playbook, encoding="utf-8")
            checkout.commit("Another way to deploy")
        note = Variable("MATRIX_NOTE_TOKEN", self.site.server.site.person_token, masked=True)
        given = [note, *deployed.variables(self.site.there)]
        return foreign.on_server(self.site.server, checkout, self.vmatrix, self.site.folder, *given)


@pytest.fixture
def teams(site: Site, pristine: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Teams:
    return Teams(site, foreign.served_vmatrix(tmp_path, pristine, monkeypatch), tmp_path)


def gone(site: Site) -> None:
    """Wait until nothing of jobs is in the cluster: pods, their secrets, cells."""
    api = site.there.cluster

    def look() -> bool | NotYet:
        left = [*site.there.job_pods, *(found.what for found in find(api, CellSelector(namespace=NAMESPACE_NAME)))]
        left += [one["metadata"]["name"] for one in api.list(VM, NAMESPACE_NAME).items]
        left += [
            name for one in api.list(SECRET, NAMESPACE_NAME).items if (name := one["metadata"]["name"]) != RUNNER_NAME
        ]
        return NotYet(", ".join(left)) if left else True

    until(look, deadline=Deadline.after(GONE_SECONDS), what="nothing of jobs to be left", interval=0.5)
