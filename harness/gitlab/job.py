"""A job's project and settings: which infra cluster its cell runs on, and how to reach it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import providers
from harness.gitlab.access import job_kubeconfig
from harness.gitlab.variables import Job, read_job
from harness.paths import project_dir
from harness.plan.goal import infra_of
from harness.rundir import RunDir
from harness.spec import load_spec
from harness.spec.project import Project, matrix_dir
from harness.spec.settings import load_settings

PREFIX = "ci-"  # of the names of jobs' own embedded infrastructures


@dataclass(frozen=True)
class JobContext:
    """The job, and the project with the settings with which it runs cells.

    own_infra: whether the embedded infrastructure is this job's alone, and goes with it.
    """

    job: Job
    project: Project
    own_infra: bool

    @property
    def files(self) -> RunDir:
        """The run's directory, by an absolute path."""
        return RunDir.of(self.project.settings.runs, self.job.run)

    @property
    def artifacts(self) -> RunDir:
        """The run's directory among the job's artifacts: relative to the checkout."""
        return RunDir(self.project.settings.runs / self.job.run)


def job_context(environment: Mapping[str, str], *, infra: bool = True) -> JobContext:
    """Read everything that a job's command needs.

    Args:
        infra: whether the command uses the infra cluster; if not, no access to it is looked for.

    Raises:
        BadInput: a variable is missing, a setting or the matrix is wrong, or the infra cluster cannot be accessed.
    """
    job = read_job(environment)
    spec = load_spec(matrix_dir())
    options: dict[str, Any] = {}
    profile = environment.get("MATRIX_INFRA", "")
    if profile:
        infra_of(spec, profile)
        options = {"infra_profile": profile, "provider": spec.infras[profile].provider}
    if environment.get("MATRIX_NAMESPACE"):
        options["namespace"] = environment["MATRIX_NAMESPACE"]
    own = not environment.get("VMATRIX_INFRA_NAME")
    if own:
        options["infra_name"] = PREFIX + job.run
    settings = load_settings(job.directory, environment=environment, options=options).settings
    per_job = providers.of(settings).per_job
    if infra and not per_job and settings.kubeconfig is None:
        options["kubeconfig"] = job_kubeconfig(job.run, environment)
        settings = load_settings(job.directory, environment=environment, options=options).settings
    return JobContext(job, Project(project_dir(), spec, settings), own_infra=own and per_job)
