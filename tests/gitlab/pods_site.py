"""A server, and the real runner in an infra cluster with executor `kubernetes`, for the tests of a session.

Needs VMATRIX_GITLAB_RUNNER, root and the built artifacts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cell.found import CellSelector, find
from harness.kube.resources import SECRET, VM
from harness.until import Deadline, NotYet, until
from tests.gitlab import deployed, real_runner
from tests.gitlab.deployed import NAMESPACE_NAME, RUNNER_NAME, Place
from tests.gitlab.inside import listening_for_pods
from tests.gitlab.server.model import Pipeline, PipelineJob, Project
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

    def begin(self, text: str, **more: object) -> Pipeline:
        """Begin the pipeline of a new repository, whose jobs have vmatrix's image."""
        count = len(list(self.folder.glob("work-*")))
        made = repository(self.folder / f"work-{count}", f"image: {self.there.image}\n{text}")
        return begin(self.server, self.project, made, **more)  # type: ignore[arg-type]

    def job(self, pipeline: Pipeline, name: str) -> PipelineJob:
        """Return the latest try of a job."""
        return job(self.server, pipeline, name)


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    real_runner.program()
    folder = tmp_path_factory.mktemp("pods")
    with deployed.place(folder) as found:
        yield found


@pytest.fixture(scope="session")
def site(there: Place) -> Iterator[Site]:
    with serving(listening=listening_for_pods(there.infra, there.cluster)) as server:
        deployed.deploy(there, server.url, add_runner(server, "vmatrix"))
        yield Site(server, there, add_project(server, "platform/small", there.folder), there.folder)
        assert server.site.refused == [], "something asked for what the server does not speak"


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
