"""`vmatrix bisect | suspect`: the commit since which a cell fails; what may explain failures of runs."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

import typer

from harness import providers
from harness.cli import options
from harness.cli.options import CLUSTER, SharedOptions, takes
from harness.cli.run import options_of
from harness.errors import EXIT_NOTHING_SELECTED, BadInput
from harness.history.store import open_store
from harness.report.suspects import lines_of
from harness.schedule.durations import Durations
from harness.session.bisection import Bisection, Repository, bisected, first_failure_at, good_and_bad, ordered
from harness.session.follow_up import Pursuit, follow_up, pursue
from harness.session.selection import choose, find_run, profile_of, project_of
from harness.streams import plain_console

out = plain_console()
MOST = 4  # further cells: mostly enough (docs/decisions/suspects.md)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("bisect")(takes(*CLUSTER, "infra_profile", "access", "timeout_scale")(bisect_commits))
    app.command()(takes("runs", "provider", "infra_profile", "infra_name")(suspect))


def bisect_commits(
    shared: SharedOptions,
    cell: Annotated[str, typer.Argument(metavar="CELL", help="Cell id.", autocompletion=options.planned)],
    good: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Revision at which it passed; default: the last one of the history."),
    ] = None,
    bad: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Revision at which it failed; default: the first one after --good."),
    ] = None,
) -> None:
    """Find the commit of the project's repository since which a cell fails, by bisection.

    A revision at which something else than the product failed is skipped. If a call was interrupted, the same call
    continues it. Exit code 4: several commits are left, and no run could tell them apart.
    """
    project = project_of(shared)
    chosen = choose(project.spec, project.settings, [cell])
    if len(chosen) > 1:
        raise BadInput(f"{cell!r} is {len(chosen)} cells", hint="name one: `vmatrix list` shows their ids")
    (selected,) = chosen
    records = open_store(project.settings, os.environ).load().records
    repository = Repository.of(project.directory)
    if good is None or bad is None:
        own = repository.ancestors("HEAD")  # those that are none, or unknown to a shallow clone, come first
        by_commit = sorted(records, key=lambda record: own.get(record.where.commit, -1))
        good, bad = good_and_bad(by_commit, selected.cell.id, good, bad)
    bisection = bisected(
        repository,
        selected.cell.id,
        (good, bad),
        project.settings.runs,
        [*options_of(shared)],
        lambda line: out.print(line),
    )
    tell(bisection, repository, first_failure_at(records, selected.cell.id, bisection.revisions[-1]))
    raise typer.Exit(0 if len(bisection.open) == 1 else EXIT_NOTHING_SELECTED)


def tell(bisection: Bisection, repository: Repository, known: str = "") -> None:
    """Print what was tried, and the commit; or those that could not be told apart.

    Args:
        known: what failed first at the bad revision that was given, by the history.
    """
    for line in ordered(bisection, [repository.revision(name).title.partition(" ")[2] for name in bisection.revisions]):
        out.print(line)
    if len(bisection.open) > 1:
        out.print(f"one of these {len(bisection.open)} commits, which could not be told apart:")
    for name in bisection.open:
        commit = repository.revision(name)
        out.print(f"{commit.title}\n  commit {commit.name}\n  author {commit.author}, {commit.date}")
    tried = bisection.trials.get(bisection.open[-1])
    outcome = tried.said if tried is not None else known if bisection.open[-1] == bisection.revisions[-1] else ""
    if outcome:
        out.print(f"  first failure: {outcome}")
    for later in bisection.otherwise:
        title = repository.revision(later).title
        out.print(f"warning: {title} failed first in {': '.join(bisection.trials[later].failed)}", style="yellow")
    if bisection.otherwise:
        out.print("  so this may be another fault, or a check that is not steady: run the commit again")


def suspect(
    shared: SharedOptions,
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
    project = project_of(shared)
    spec, settings = project.spec, project.settings
    found = [find_run(settings.runs, name) for name in runs_of]
    results = list({result.directory: result for result in found}.values())  # one may have several names, as `last`
    if run or bisect:
        if len(results) > 1:
            raise BadInput("--run and --bisect are about one run", hint="name the run that the cells are added to")
        pursuit = Pursuit(project, results[0].run, [*options_of(shared)], lambda line: out.print(line))
        if code := pursue(pursuit, most if run else 0, bisect=bisect):
            raise typer.Exit(code)
        results = [find_run(settings.runs, result.run) for result in results]
    durations = Durations.load(settings, os.environ)
    following = follow_up(spec, profile_of(spec, settings), results, lambda cell: durations.expected(cell).seconds)
    for line in (line for result in following.failures for line in lines_of(result)):
        out.print(line)
    if following.cell is not None:
        into = ["--into", results[0].run]
        next_run = ["vmatrix", "run", following.cell.id, *into, *providers.of(settings).options(settings)]
        out.print(f"next: {shlex.join(next_run)}")
    elif following.failures or results[0].further:
        for line in following.why or ("no further cell would tell more",):
            out.print(line)
    else:
        out.print("no failure that a passed cell could be compared with")
        raise typer.Exit(EXIT_NOTHING_SELECTED)
