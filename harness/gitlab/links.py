"""Links on a job's page (`artifacts:reports:annotations`): where its results are and what came out.

https://docs.gitlab.com/ci/yaml/artifacts_reports/#artifactsreportsannotations
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from harness.files import write_atomically
from harness.gitlab.job import JobContext
from harness.gitlab.variables import Job
from harness.report.cell import CellResult
from harness.report.results import load

FILE = "annotations.json"
SECTION = "vmatrix"
LABEL_LENGTH = 240  # GitLab's schema refuses labels from 256 characters on


@dataclass(frozen=True)
class Link:
    """A label and where it leads."""

    label: str
    url: str


def artifact(job: Job, path: str) -> str:
    """Return the page of a file (or, ending in a slash, of a folder) of the job's artifacts."""
    what = "browse" if path.endswith("/") else "file"
    return f"{job.url}/artifacts/{what}/{quote(path)}"


def write(directory: Path, links: Mapping[str, Sequence[Link]], *, prefix: str = "") -> None:
    """Write the file: sections of links; a link without an address is left out, since GitLab refuses the whole file.

    Args:
        prefix: of the file's name.
    """
    content = {
        section: [{"external_link": {"label": _short(link.label), "url": link.url}} for link in those if link.url]
        for section, those in links.items()
    }
    write_atomically(directory / f"{prefix}{FILE}", json.dumps({s: those for s, those in content.items() if those}))


def add(directory: Path, links: Mapping[str, Sequence[Link]]) -> None:
    """Add sections to the file, before what it has of the same name; one that cannot be read is replaced."""
    try:
        there = json.loads((directory / FILE).read_text(encoding="utf-8"))
        known = {
            s: [Link(e["external_link"]["label"], e["external_link"]["url"]) for e in es] for s, es in there.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        known = {}
    write(directory, {s: [*links.get(s, ()), *known.get(s, ())] for s in {**links, **known}})


def _short(label: str) -> str:
    line = " ".join(label.split())
    return line if len(line) <= LABEL_LENGTH else f"{line[: LABEL_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"


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
    write(job.directory, {SECTION: [*outcome, *where]}, prefix=job.prefix)


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
