"""How a job ends, whatever its script came to: results collected, nothing left behind, links on its page.

Links: https://docs.gitlab.com/ci/yaml/artifacts_reports/#artifactsreportsannotations.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from rich.console import Console

from harness import providers
from harness.artifacts.catalogue import packaged
from harness.artifacts.store import Store
from harness.cell import diagnose, teardown
from harness.cell.existing import CellSelector, ExistingCell, find
from harness.cell.place import place_of
from harness.errors import BadInput, InfraError, Leaked, VmatrixError
from harness.events import Recorder, read
from harness.files import write_atomically
from harness.gitlab import access
from harness.gitlab.job import PREFIX, Job, JobContext
from harness.providers import Opening
from harness.report import run_reports
from harness.report.cell import CellResult
from harness.report.results import load
from harness.rundir import RunDir
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, TimedOut, until

STARTS = ("run-start", "rerun-start")
LOOK_SECONDS = 0.5  # at a process of this host
FORCED_SECONDS = 10.0  # for a process that has got a second signal, which ends it at once
ANNOTATIONS = "annotations.json"
ASIDE = "-of-earlier-jobs"  # beside the folder of runs, whose artifacts are the job's
SECTION = "vmatrix"
LABEL_LENGTH = 240  # GitLab's schema refuses labels from 256 characters on


def end(context: JobContext, *, wait: float | None, console: Console) -> None:
    """End a job, any number of times; a step that fails does not keep the next ones from being tried.

    Args:
        wait: seconds for a run that still goes on; None for as long as its own end may take.

    Raises:
        Leaked: something of the run could not be removed.
    """
    run, timeouts = context.job.run, context.timeouts
    seconds = timeouts.collect + timeouts.teardown if wait is None else wait
    if not wait_for_end(context.files.path, seconds=seconds):
        console.print(f"run {run} did not end within {seconds:.0f} s")
    failures = [failure for failure in (_remove_left(context, console), _infra_down(context)) if failure]
    _complete(context)
    annotate(context)
    access.forget(run)
    if failures:
        raise failures[0]
    console.print(f"nothing of run {run} is left")


def put_aside(context: JobContext, *, console: Console) -> None:
    """Move runs of earlier jobs out of the folder of runs: GitLab would take them for results of this job.

    A runner whose GIT_CLEAN_FLAGS is `none`, or lacks -x, leaves them in the checkout. A folder of runs elsewhere is
    not the job's alone, and stays as it is.

    Raises:
        BadInput: one cannot be moved.
    """
    runs = context.settings.runs.absolute()
    if not runs.is_dir() or not runs.resolve().is_relative_to(context.job.directory.resolve()):
        return
    earlier = [folder for folder in sorted(runs.iterdir()) if folder.name != context.job.run and _is_run(folder)]
    aside = runs.with_name(f"{runs.name}{ASIDE}")
    for folder in earlier:
        try:
            aside.mkdir(exist_ok=True)
            folder.rename(aside / folder.name)
        except OSError as error:
            raise BadInput(
                f"{folder} is of an earlier job and cannot be moved to {aside}: {error.strerror}",
                hint="remove it, or have the runner clean checkouts (GIT_CLEAN_FLAGS: -ffdx)",
            ) from error
    if earlier:
        console.print(
            f"{len(earlier)} runs of earlier jobs were in {runs.name} (GIT_CLEAN_FLAGS): they are in {aside.name} now"
        )


def _is_run(folder: Path) -> bool:
    return RunDir(folder).results.is_file() and process_of(folder) is None


def reap(context: JobContext, *, console: Console) -> None:
    """Remove expired cells of the infra cluster, or jobs' embedded infrastructures older than cells may become."""
    settings, timeouts = context.settings, context.timeouts
    provider = providers.of(settings)
    if provider.per_job:
        # a job's infra is older than its cell: it prepares, and waits for room, first
        oldest = settings.expiry_hours * 3600 + timeouts.job_prepare + timeouts.admission
        names = provider.stale_instances(PREFIX, oldest)
        for name in names:
            providers.take_down(provider.instance(_opening(settings.model_copy(update={"infra_name": name}))))
            console.print(f"gone: infra {name}")
        console.print(f"{len(names)} embedded infrastructures removed")
        return
    gone = teardown.reap(
        providers.open_cluster(settings, timeouts),
        CellSelector(only_expired=True, namespace=settings.namespace),
        seconds=timeouts.teardown,
        on_gone=partial(_tell_gone, console),
        on_wait=partial(console.print),
    )
    access.forget(context.job.run)
    console.print(f"{len(gone)} expired cells removed")


def _tell_gone(console: Console, cell: ExistingCell) -> None:
    console.print(f"gone: {cell.what}")


def process_of(run_dir: Path) -> int | None:
    """Return the process that the run's events are of; None when it has ended, or never was, or is not known.

    Its command line names the run: the number may have gone to another process since.
    """
    started = [event for event in read(run_dir) if event["event"] in STARTS]
    pid = started[-1].get("pid") if started else None
    if not pid:
        return None
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return None
    return pid if run_dir.name.encode() in words and state not in "ZX" else None


def wait_for_end(run_dir: Path, *, seconds: float) -> bool:
    """Give a run time to end by itself, then tell it to stop at once; return whether it ended by itself."""
    if _ended(run_dir, seconds):
        return True
    pid = process_of(run_dir)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        _ended(run_dir, FORCED_SECONDS)
    return False


def _ended(run_dir: Path, seconds: float) -> bool:
    def gone() -> bool | NotYet:
        pid = process_of(run_dir)
        return True if pid is None else NotYet(f"process {pid} is still running")

    with suppress(TimedOut):
        what = f"run {run_dir.name} to end"
        return until(gone, deadline=Deadline.after(seconds), what=what, interval=LOOK_SECONDS)
    return False


def _remove_left(context: JobContext, console: Console) -> VmatrixError | None:
    """Collect and remove what is left of the run in the infra cluster; None when nothing is left afterwards."""
    shared, timeouts = context.settings.namespace, context.timeouts
    try:
        cluster = providers.open_cluster(context.settings, timeouts)
    except BadInput as error:
        return None if context.own_infra else error  # the embedded one went away, or never came up
    selector = CellSelector(run=context.job.run, namespace=shared)
    try:
        for left in find(cluster, selector):
            place = place_of(left.run, left.cell, left.attempt, shared=shared)
            files = context.files.attempt(left.cell, left.attempt)
            diagnose.collect(cluster, place, files, None, seconds=timeouts.collect)
        gone = teardown.reap(
            cluster,
            selector,
            seconds=timeouts.teardown,
            on_gone=partial(_tell_gone, console),
            on_wait=partial(console.print),
        )
    except VmatrixError as error:
        return error
    for cell in {leftover.cell for leftover in gone}:
        context.files.remove_secrets(cell)
    return None


def _infra_down(context: JobContext) -> VmatrixError | None:
    if not context.own_infra:
        return None
    try:
        settings = context.settings
        providers.take_down(providers.of(settings).instance(_opening(settings)))
    except (Leaked, InfraError) as error:
        return error
    return None


def _opening(settings: Settings) -> Opening:
    """Return what an instance is taken down with: what a project adds to the catalogue does not matter then."""
    return Opening(settings, store=Store(catalogue=packaged()))


def _complete(context: JobContext) -> None:
    """Write the reports of a run that was killed before it could."""
    files = context.files
    events = read(files.path)
    if not events or any(event["event"] == "run-end" for event in events):
        return
    Recorder(files.path).write("job-end", job=context.job.id)
    result = load(files.path, quarantine=context.quarantine)
    run_reports.write_all(result, files)


def annotate(context: JobContext) -> None:
    """Write the job's links."""
    job = context.job
    if not job.url:
        return
    where = [
        Link("results of the run", artifact_url(job, f"{context.artifacts.path}/")),
        Link("summary", artifact_url(job, str(context.artifacts.summary))),
    ]
    outcome = list(_outcome(context)) if context.files.results.is_file() else []
    write_links(job.directory, {SECTION: [*outcome, *where]}, prefix=job.prefix)


def _outcome(context: JobContext) -> Iterator[Link]:
    """Yield a link per cell and per failure, to the logs."""
    for cell in load(context.files.path, quarantine=context.quarantine).cells:
        logs = artifact_url(context.job, f"{context.artifacts.attempt(cell.id).logs}/")
        yield Link(f"{cell.id}: {cell.outcome}", logs)
        yield from (Link(label, logs) for label in _failures(cell))


def _failures(cell: CellResult) -> Iterator[str]:
    for step in cell.last_failures:
        yield f"{step.blame}: {step.name}: {step.summary}"
    for check in cell.failed_checks:
        first = check.detail.strip().partition("\n")[0]
        yield f"{check.blame}: {check.suite}: {check.name}: {first}"


@dataclass(frozen=True)
class Link:
    """A label and where it leads."""

    label: str
    url: str


def artifact_url(job: Job, path: str) -> str:
    """Return the page of a file (or, ending in a slash, of a folder) of the job's artifacts."""
    what = "browse" if path.endswith("/") else "file"
    return f"{job.url}/artifacts/{what}/{quote(path)}"


def write_links(directory: Path, links: Mapping[str, Sequence[Link]], *, prefix: str = "") -> None:
    """Write the file: sections of links; a link without an address is left out, since GitLab refuses the whole file.

    Args:
        prefix: of the file's name.
    """
    content = {
        section: [{"external_link": {"label": _short(link.label), "url": link.url}} for link in those if link.url]
        for section, those in links.items()
    }
    write_atomically(
        directory / f"{prefix}{ANNOTATIONS}", json.dumps({s: those for s, those in content.items() if those})
    )


def add_links(directory: Path, links: Mapping[str, Sequence[Link]]) -> None:
    """Add sections to the file, before what it has of the same name; one that cannot be read is replaced."""
    try:
        there = json.loads((directory / ANNOTATIONS).read_text(encoding="utf-8"))
        known = {
            s: [Link(e["external_link"]["label"], e["external_link"]["url"]) for e in es] for s, es in there.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        known = {}
    write_links(directory, {s: [*links.get(s, ()), *known.get(s, ())] for s in {**links, **known}})


def _short(label: str) -> str:
    line = " ".join(label.split())
    return line if len(line) <= LABEL_LENGTH else f"{line[: LABEL_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
