"""A job's links: where its results will be, and once there are some, what came out."""

from __future__ import annotations

from collections.abc import Iterator

from harness.gitlab import links
from harness.gitlab.job import JobContext
from harness.gitlab.links import Link, artifact
from harness.report.cell import CellResult
from harness.report.results import load

SECTION = "vmatrix"


def annotate(context: JobContext) -> None:
    """Write the job's links."""
    job = context.job
    if not job.url:
        return
    where = [
        Link("results of the run", artifact(job, f"{context.artifacts.path}/")),
        Link("summary", artifact(job, str(context.artifacts.summary))),
    ]
    outcome = list(_outcome(context)) if context.files.results.is_file() else []
    links.write(job.directory, {SECTION: [*outcome, *where]})


def _outcome(context: JobContext) -> Iterator[Link]:
    """Yield a link per cell and per failure, to the logs."""
    for cell in load(context.files.path, quarantine=context.project.spec.quarantine).cells:
        logs = artifact(context.job, f"{context.artifacts.attempt(cell.id).logs}/")
        yield Link(f"{cell.id}: {cell.outcome}", logs)
        yield from (Link(label, logs) for label in _failures(cell))


def _failures(cell: CellResult) -> Iterator[str]:
    for step in cell.last_failures:
        yield f"{step.blame}: {step.name}: {step.summary}"
    for check in cell.failed_checks:
        first = check.detail.strip().partition("\n")[0]
        yield f"{check.blame}: {check.suite}: {check.name}: {first}"
