"""`vmatrix logs`: what a cell's machines and phases say, also as they say it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from harness.cell.existing import Existing
from harness.cell.logs import LOG_SOURCES, Followed, LogLine, LogWish, last_lines
from harness.cli import complete
from harness.cli.options import CLUSTER, Given, settings_of, takes
from harness.cli.reach import Cell, cell_at
from harness.errors import BadInput
from harness.rundir import RunDir
from harness.spec.settings import Settings
from harness.spec.shape import unknown

TAIL = 100


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes(*CLUSTER, "access", "runs")(logs))


def logs(
    given: Given,
    cell: Cell,
    machine: Annotated[
        str | None,
        typer.Argument(metavar="MACHINE", help="Only this machine, such as cp-0.", autocompletion=complete.machines),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until the cell ends.")] = False,
    tail: Annotated[int, typer.Option(min=0, metavar="N", help="Lines of each source to begin with.")] = TAIL,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help=f"Only this source; can be repeated. Choices: {', '.join(LOG_SOURCES)}.",
            autocompletion=lambda: list(LOG_SOURCES),
        ),
    ] = None,
) -> None:
    """Print what a cell's machines write to their consoles and journals, and what the product's phases print.

    Journals and phases are read only on the machine that the cell's run was started on.
    """
    wish = LogWish(machine, _known(source), tail)
    settings = settings_of(given)
    there = _alive(cell, settings)
    if machine is not None:
        there.instance(machine)  # refuses one that does not run
    alone = machine is not None and len(wish.sources) == 1
    notes = Console(stderr=True, highlight=False, soft_wrap=True)

    def note(said: str) -> None:
        notes.print(f"not read: {said}", markup=False)

    lines = Followed(there, wish, note).lines() if follow else last_lines(there, wish, note)
    for line in lines:
        _print(line, alone=alone)
    if follow:
        notes.print(f"cell {cell} has ended", markup=False)


def _print(line: LogLine, *, alone: bool) -> None:
    sys.stdout.write(f"{line.text}\n" if alone else f"{line.source}: {line.text}\n")
    sys.stdout.flush()


def _known(sources: Sequence[str] | None) -> Sequence[str]:
    for source in sources or ():
        if source not in LOG_SOURCES:
            raise BadInput(unknown("source", source, LOG_SOURCES), hint=f"sources: {', '.join(LOG_SOURCES)}")
    return sources or LOG_SOURCES


def _alive(cell: str, settings: Settings) -> Existing:
    """Return the cell. Raises BadInput when it does not exist, with the logs that its last run has collected."""
    try:
        return cell_at(cell, settings)
    except BadInput as error:
        kept = [files.logs for run in RunDir.all_in(settings.runs) if (files := run.attempt(cell)).logs.is_dir()]
        if kept:
            newest = max(kept, key=lambda folder: folder.stat().st_mtime)
            raise BadInput(error.summary, hint=f"the logs that its last run here has collected: {newest}") from error
        raise
