"""`vmatrix gitlab doctor`: what of runner, token, rights, image, tags, time-outs, artifacts and clock does not fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

import harness
from harness import providers
from harness.cli.doctor import show, use_of_plan
from harness.errors import EXIT_BAD_INPUT, EXIT_OK, BadInput
from harness.gitlab.access import forget
from harness.gitlab.doctor import USUAL_MIB, clock_findings, job_findings, token_findings, upload_findings
from harness.gitlab.job import job_context
from harness.gitlab.variables import read_job
from harness.infra.findings import Finding, fatal


def doctor(
    tag: Annotated[str, typer.Option(envvar="MATRIX_RUNNER_TAG", help="Tag of the runners for cells.")] = "vmatrix",
    artifacts_limit: Annotated[int, typer.Option(min=1, help="GitLab's maximum artifacts size (MiB).")] = USUAL_MIB,
) -> None:
    """Check what a job needs of GitLab, its runner, its image and the infra cluster, and print how to fix it.

    Run it in a job of the pipeline, or with a job's variables. Exits with code 2 if something is missing.
    """
    job = read_job(os.environ)
    found = [
        *job_findings(os.environ, tag=tag, version=harness.__version__),
        *token_findings(os.environ),
        *clock_findings(os.environ),
        *upload_findings(job.directory, limit_mib=artifacts_limit, prefix=job.prefix),
        *_infra(os.environ, job.run),
    ]
    show("this job", found)
    raise typer.Exit(EXIT_BAD_INPUT if fatal(found) else EXIT_OK)


def _infra(environment: Mapping[str, str], run: str) -> Iterator[Finding]:
    """Yield what the infra cluster lacks, the job's rights among it, or this host."""
    try:
        context = job_context(environment)
        settings = context.project.settings
        yield from providers.of(settings).check(settings, None, lambda: use_of_plan(settings, None, pods=False))[1]
    except BadInput as wrong:
        yield Finding(wrong.summary, "the job cannot run cells", wrong.hint or wrong.summary)
    finally:
        forget(run)
