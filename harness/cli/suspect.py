"""`vmatrix suspect`: what may explain the failures of runs, and which cell to run next."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

import typer
from rich.console import Console

from harness import providers
from harness.cli import options
from harness.cli.options import Given, takes
from harness.errors import EXIT_NOTHING_SELECTED
from harness.report.suspects import lines_of
from harness.schedule.durations import Durations
from harness.session.choice import find_run, profile_of, project_of
from harness.session.follow_up import follow_up

out = Console(soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes("runs", "provider", "infra_profile", "infra_name")(suspect))


def suspect(
    given: Given,
    runs_of: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Run ids, or `last`; the first run, and those of its further cells.",
            autocompletion=options.COMPLETED["RUN"],
        ),
    ],
) -> None:
    """Rank what may explain the failures of RUN: values, pairs and triples that failing cells have.

    Prints the command for the cell that tells the suspects apart; name its run as well in the next call. Exit code 4:
    no failure can be explained.
    """
    project = project_of(given)
    spec, settings = project.spec, project.settings
    results = [find_run(settings.runs, run) for run in runs_of]
    durations = Durations.load(settings, os.environ)
    found = follow_up(spec, profile_of(spec, settings), results, lambda cell: durations.expected(cell).seconds)
    for line in (line for one in found.failures for line in lines_of(one)):
        out.print(line, markup=False)
    if found.cell is not None:
        tier = ["--tier", results[0].tier] if results[0].tier else []
        next_run = ["vmatrix", "run", found.cell.id, *tier, *providers.of(settings).options(settings)]
        out.print(f"next: {shlex.join(next_run)}", markup=False)
    elif found.failures:
        out.print("no further cell would tell more", markup=False)
    else:
        out.print("no failure that a passed cell could be compared with", markup=False)
        raise typer.Exit(EXIT_NOTHING_SELECTED)
