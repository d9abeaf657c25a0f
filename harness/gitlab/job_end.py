"""How a job of a pipeline ends: its run's traces collected, nothing left behind, links on its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from harness import providers
from harness.cell import teardown
from harness.cell.found import CellSelector
from harness.errors import BadInput, InfraError, Leaked, VmatrixError
from harness.gitlab import access, links
from harness.gitlab.ending import take_away, wait_for_end
from harness.gitlab.job import PREFIX, JobContext
from harness.gitlab.links import Link, artifact
from harness.providers import Opening
from harness.record import Recorder, read
from harness.report import junit, summary
from harness.report.cell import CellResult
from harness.report.results import RunResult, load
from harness.rundir import RunDir

SECTION = "vmatrix"


def end(context: JobContext, *, wait: float | None, console: Console) -> None:
    """End a job; everything is tried, whatever fails before it.

    Args:
        wait: seconds for a run that still goes on; None for as long as its own end may take.

    Raises:
        Leaked: something of the run could not be taken away.
    """
    run_dir = _run_dir(context)
    timeouts = context.spec.timeouts.scaled(context.settings.timeout_scale)
    patience = timeouts.collect + timeouts.teardown if wait is None else wait
    if not wait_for_end(run_dir, seconds=patience):
        console.print(f"run {context.job.run} did not end within {patience:.0f} s", markup=False)
    failures = [failure for failure in (_take_away(context, run_dir, console), _infra_down(context)) if failure]
    _complete(context, run_dir)
    annotate(context, run_dir)
    access.forget(context.job.run)
    if failures:
        raise failures[0]
    console.print(f"nothing of run {context.job.run} is left", markup=False)


def _run_dir(context: JobContext) -> Path:
    return RunDir.of(context.settings.runs, context.job.run).path


def _take_away(context: JobContext, run_dir: Path, console: Console) -> VmatrixError | None:
    """Collect and take away what is left; None when nothing is."""
    timeouts = context.spec.timeouts.scaled(context.settings.timeout_scale)
    try:
        cluster = providers.open_cluster(context.settings)
    except BadInput as error:
        return None if context.own_infra else error  # the embedded one went away, or never came up
    try:
        gone = take_away(
            cluster,
            run_dir,
            shared=context.settings.namespace,
            collect_seconds=timeouts.collect,
            seconds=timeouts.teardown,
            on_gone=lambda found: console.print(f"gone: {found.what}", markup=False),
        )
    except VmatrixError as error:
        return error
    for cell in {found.cell for found in gone}:
        RunDir(run_dir).remove_secrets(cell)
    return None


def _infra_down(context: JobContext) -> VmatrixError | None:
    if not context.own_infra:
        return None
    try:
        providers.of(context.settings).instance(Opening(context.settings)).down()
    except (Leaked, InfraError) as error:
        return error
    return None


def _complete(context: JobContext, run_dir: Path) -> None:
    """Write the reports of a run that was killed before it could."""
    events = read(run_dir)
    if not events or any(event["event"] == "run-end" for event in events):
        return
    Recorder(run_dir).write("job-end", job=context.job.id)
    result = load(run_dir, quarantine=context.spec.quarantine)
    junit.write(result, RunDir(run_dir).junit)
    summary.write(result, RunDir(run_dir).summary)


def annotate(context: JobContext, run_dir: Path | None) -> None:
    """Write the job's links: where its results will be, and once there are some, what came out.

    Args:
        run_dir: None before the run.
    """
    job = context.job
    if not job.url:
        return
    results = run_dir is not None and RunDir(run_dir).results.is_file()
    outcome = list(_outcome(context, load(run_dir, quarantine=context.spec.quarantine))) if run_dir and results else []
    files = RunDir(context.settings.runs / job.run)
    where = [
        Link("results of the run", artifact(job, f"{files.path}/")),
        Link("summary", artifact(job, str(files.summary))),
    ]
    links.write(job.directory, {SECTION: [*outcome, *where]})


def _outcome(context: JobContext, result: RunResult) -> Iterator[Link]:
    """Yield a link per cell and per failure, to the logs."""
    job = context.job
    for cell in result.cells:
        logs = artifact(job, f"{RunDir(context.settings.runs / result.run).attempt(cell.id).logs}/")
        yield Link(f"{cell.id}: {cell.outcome}", logs)
        yield from (Link(label, logs) for label in _failures(cell))


def _failures(cell: CellResult) -> Iterator[str]:
    for step in cell.last_failures:
        yield f"{step.blame}: {step.name}: {step.summary}"
    for check in cell.failed_checks:
        first = check.detail.strip().partition("\n")[0]
        yield f"{check.blame}: {check.suite}: {check.name}: {first}"


def reap(context: JobContext, *, console: Console) -> None:
    """Take away expired cells of the infra cluster, or jobs' embedded infrastructures older than cells may become."""
    timeouts = context.spec.timeouts.scaled(context.settings.timeout_scale)
    provider = providers.of(context.settings)
    if provider.per_job:
        # a job's infra is older than its cell: it prepares, and waits for room, first
        oldest = context.settings.expiry_hours * 3600 + timeouts.job_prepare + timeouts.admission
        names = provider.stale_instances(PREFIX, oldest)
        for name in names:
            provider.instance(Opening(context.settings.model_copy(update={"infra_name": name}))).down()
            console.print(f"gone: infra {name}", markup=False)
        console.print(f"{len(names)} embedded infrastructures taken away", markup=False)
        return
    selection = CellSelector(only_expired=True, namespace=context.settings.namespace)
    gone = teardown.reap(
        providers.open_cluster(context.settings),
        selection,
        seconds=timeouts.teardown,
        on_gone=lambda found: console.print(f"gone: {found.what}", markup=False),
    )
    access.forget(context.job.run)
    console.print(f"{len(gone)} expired cells taken away", markup=False)
