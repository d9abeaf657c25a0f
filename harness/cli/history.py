"""`vmatrix history add | compact | show`: the history of cell runs."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.cli.options import AsJson
from harness.cli.plain import CommandSet
from harness.cli.report import tell_skipped
from harness.errors import BadInput
from harness.history.origin import JOB
from harness.history.store import open_store
from harness.paths import project_dir, settings_dir
from harness.report.records import collect
from harness.spec import load_spec
from harness.spec.project import matrix_dir
from harness.spec.settings import Settings, load_settings

app = CommandSet(no_args_is_help=True, help="Show and edit the history of cell runs that `vmatrix report` reads.")


@app.command()
def add(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Run directories, directories of them, or history files.")
    ],
) -> None:
    """Add runs to the history; runs that it already has are skipped."""
    settings = load_settings(settings_dir()).settings
    for path in paths if not os.environ.get(JOB) else ():  # a run may have died before it began
        if not path.exists() and path != settings.runs:
            raise BadInput(f"{path} does not exist", hint="pass run directories or history files (.jsonl)")
    found = collect(paths, quarantine=load_spec(matrix_dir()).quarantine)
    store = open_store(settings, os.environ)
    added = store.add(found.records)
    console = Console(highlight=False, soft_wrap=True)
    tell_skipped(found.skipped, console)
    console.print(f"{store.name}: {added} cell runs added, {len(found.records) - added} skipped", markup=False)


@app.command()
def compact(
    days: Annotated[float | None, typer.Option(min=0, help="Age in days; default: report_keep_days.")] = None,
) -> None:
    """Drop the details of old cell runs; outcomes, durations and failures are kept."""
    settings = _settings()
    store = open_store(settings, os.environ)
    kept = days if days is not None else settings.report_keep_days
    dropped = store.compact(days=kept, now=datetime.now(UTC))
    Console(highlight=False, soft_wrap=True).print(
        f"{store.name}: details of {dropped} cell runs older than {kept:g} days dropped", markup=False
    )


@app.command()
def show(as_json: AsJson = False) -> None:
    """Print where the history is, its size, and lines that cannot be read."""
    settings = _settings()
    store = open_store(settings, os.environ)
    history = store.load()
    console = Console(highlight=False, soft_wrap=True)
    old = sum(record.forgotten for record in history.records)
    if as_json:
        ends = [record.started for record in (*history.records[:1], *history.records[-1:])]
        counts = {"cell_runs": len(history.records), "without_details": old, "duplicates": history.duplicates}
        told = {"store": store.name, **counts, "from": ends[0] if ends else None, "to": ends[-1] if ends else None}
        unreadable = [{"source": one.source, "line": one.line, "why": one.why} for one in history.skipped]
        console.print(json.dumps({**told, "unreadable": unreadable}, indent=2), markup=False)
        return
    console.print(
        f"{store.name}: {len(history.records)} cell runs ({old} without details), {history.duplicates} duplicates, "
        f"{len(history.skipped)} unreadable lines",
        markup=False,
    )
    if history.records:
        console.print(f"from {history.records[0].started} to {history.records[-1].started}", markup=False)
    tell_skipped(history.skipped, console)


def _settings() -> Settings:
    """Return the project's settings. Raises BadInput outside of a project, which has no history."""
    project_dir()
    return load_settings(settings_dir()).settings
