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
from harness.cli.run import options_of
from harness.errors import EXIT_NOTHING_SELECTED, BadInput
from harness.report.suspects import lines_of
from harness.schedule.durations import Durations
from harness.session.choice import find_run, profile_of, project_of
from harness.session.follow_up import Pursuit, follow_up, pursue

MOST = 4  # further cells: mostly enough (docs/decisions/suspects.md)
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
    run: Annotated[bool, typer.Option("--run", help="Run the cells, into RUN, until they tell no more.")] = False,
    most: Annotated[int, typer.Option(min=1, max=20, help="With --run: the most cells.", metavar="N")] = MOST,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="Find the commit that a named suspect came with, by runs.")
    ] = False,
) -> None:
    """Rank what may explain the failures of RUN: values, pairs and triples that failing cells have.

    Prints the command for the cell that tells the suspects apart, which adds it to RUN. Exit code 4: no failure can be
    explained.
    """
    project = project_of(given)
    spec, settings = project.spec, project.settings
    results = [find_run(settings.runs, one) for one in runs_of]
    if run or bisect:
        if len(results) > 1:
            raise BadInput("--run and --bisect are about one run", hint="name the run that the cells are added to")
        pursuit = Pursuit(project, results[0].run, [*options_of(given)], lambda line: out.print(line, markup=False))
        if code := pursue(pursuit, most if run else 0, bisect=bisect):
            raise typer.Exit(code)
        results = [find_run(settings.runs, one.run) for one in results]
    durations = Durations.load(settings, os.environ)
    found = follow_up(spec, profile_of(spec, settings), results, lambda cell: durations.expected(cell).seconds)
    for line in (line for one in found.failures for line in lines_of(one)):
        out.print(line, markup=False)
    if found.cell is not None:
        into = ["--into", results[0].run]
        next_run = ["vmatrix", "run", found.cell.id, *into, *providers.of(settings).options(settings)]
        out.print(f"next: {shlex.join(next_run)}", markup=False)
    elif found.failures or results[0].further:
        for line in found.why or ("no further cell would tell more",):
            out.print(line, markup=False)
    else:
        out.print("no failure that a passed cell could be compared with", markup=False)
        raise typer.Exit(EXIT_NOTHING_SELECTED)
