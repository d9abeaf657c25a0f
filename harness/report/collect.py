"""Runs into the history: at a run's end by itself, or later by name (`vmatrix history add`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import BadInput
from harness.history.file import FileStore, content, replace_file
from harness.history.lines import History, Skipped, once, read, united
from harness.history.origin import JOB
from harness.history.record import Record, to_line
from harness.history.store import file_of
from harness.model import Cell
from harness.recorded import recorded
from harness.report.records import records_of
from harness.rundir import HISTORY, RunDir
from harness.schedule.durations import estimate
from harness.spec.models import QuarantineEntry
from harness.spec.settings import Settings

FOREIGN = "no run wrote it"


@dataclass(frozen=True)
class Collected:
    """What was found: records, each once, and what could not be read."""

    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...]


def keep(
    run_dir: Path, settings: Settings, *, quarantine: Sequence[QuarantineEntry], cells: Iterable[Cell] | None = None
) -> None:
    """Write a run's records beside its results and, outside of a job, into this machine's history file.

    A job's files are its own, and as artifacts of many jobs they would overwrite each other. There the records beside
    the results are added by the job that has them all.

    Args:
        cells: those that this call of the run had; all of the run without.

    Raises:
        InfraError: a file could not be written.
    """
    estimates = None if cells is None else {cell.id: round(estimate(cell), 1) for cell in cells}
    records = records_of(run_dir, quarantine=quarantine, cells=estimates)
    records = tuple(replace(record, estimate=(estimates or {}).get(record.cell, 0.0)) for record in records)
    own = RunDir(run_dir).history
    before = content(own) if own.exists() else b""
    replace_file(own, united(before, *map(to_line, records)))
    if not os.environ.get(JOB):
        FileStore(file_of(settings)).append(records)


def collect(paths: Sequence[Path], *, quarantine: Sequence[QuarantineEntry]) -> Collected:
    """Return the records of runs and of history files.

    Args:
        paths: directories of runs, directories that hold some, .jsonl files. An empty directory holds no run; so does
            one that does not exist if it is the only one: a run may have died before it began.

    Raises:
        BadInput: a path does not exist, or is no such thing.
    """
    runs: list[Path] = []
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            own = RunDir(path)
            runs += [path] if own.results.is_file() else [run.path for run in RunDir.all_in(path)]
            files += [p for p in (own.history,) if p.is_file() and path in runs] + sorted(path.glob(f"*/{HISTORY}"))
        elif path.is_file():
            files.append(path)
        elif len(paths) > 1 or path.suffix:
            said = "is neither a folder nor a regular file" if os.path.exists(path) else "does not exist"
            raise BadInput(f"{path} {said}", hint="pass run directories or history files (.jsonl)")
    found, skipped = _runs(runs, quarantine)
    history: History = read((str(file), content(file)) for file in files)
    # what a run itself wrote down comes first: it knew the quarantine of its day
    return Collected(once([*history.records, *found]), (*skipped, *history.skipped))


def _runs(runs: Iterable[Path], quarantine: Sequence[QuarantineEntry]) -> tuple[list[Record], list[Skipped]]:
    """Return the records of runs' results; results that are damaged are named."""
    found: list[Record] = []
    skipped: list[Skipped] = []
    for run in runs:
        try:
            found += records_of(run.resolve(), quarantine=quarantine)
            skipped += [Skipped(str(RunDir(run).results), line, FOREIGN) for line in recorded(run).foreign]
        except (BadInput, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            skipped.append(Skipped(str(RunDir(run).results), 0, f"{type(error).__name__}: {error}"))
    return found, skipped
