"""A job's settings: which infra cluster its cell runs on, and the way into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import providers
from harness.gitlab.access import job_kubeconfig
from harness.gitlab.variables import Job, read_job
from harness.paths import project_dir
from harness.plan.goal import infra_of
from harness.spec import Spec, load_spec
from harness.spec.settings import Settings, load_settings

PREFIX = "ci-"  # of the names of jobs' own embedded infrastructures


@dataclass(frozen=True)
class JobContext:
    """The job, the matrix, and the settings with which it runs cells.

    own_infra: whether the embedded infrastructure is this job's alone, and goes with it.
    """

    job: Job
    spec: Spec
    settings: Settings
    own_infra: bool


def job_context(environment: Mapping[str, str], *, infra: bool = True) -> JobContext:
    """Read everything that a job's command needs.

    Args:
        infra: whether the command goes to the infra cluster; else no way into it is looked for.

    Raises:
        BadInput: a variable is missing, a setting or the matrix is wrong, or there is no way into the infra cluster.
    """
    job = read_job(environment)
    spec = load_spec(project_dir() / "matrix")
    options: dict[str, Any] = {}
    kind = environment.get("MATRIX_INFRA", "")
    if kind:
        infra_of(spec, kind)
        options = {"infra_profile": kind, "provider": spec.infras[kind].provider}
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
    return JobContext(job, spec, settings, own_infra=own and per_job)
