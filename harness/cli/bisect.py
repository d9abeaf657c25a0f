"""`vmatrix bisect`: the commit since which a cell fails."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.console import Console

from harness.cli import options
from harness.cli.options import CLUSTER, Given, takes
from harness.cli.run import options_of
from harness.errors import EXIT_NOTHING_SELECTED, BadInput
from harness.history.store import open_store
from harness.session.bisection import Bisection, Repository, bisected, first_failure_at, good_and_bad, ordered
from harness.session.choice import choose, project_of

out = Console(soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes(*CLUSTER, "infra_profile", "access", "timeout_scale")(bisect))


def bisect(
    given: Given,
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
    project = project_of(given)
    chosen = choose(project.spec, project.settings, [cell])
    if len(chosen) > 1:
        raise BadInput(f"{cell!r} is {len(chosen)} cells", hint="name one: `vmatrix list` shows their ids")
    (one,) = chosen
    records = open_store(project.settings, os.environ).load().records
    repository = Repository.of(project.directory)
    if good is None or bad is None:
        own = repository.ancestors("HEAD")  # those that are none, or unknown to a shallow clone, come first
        by_commit = sorted(records, key=lambda record: own.get(record.where.commit, -1))
        good, bad = good_and_bad(by_commit, one.cell.id, good, bad)
    found = bisected(
        repository,
        one.cell.id,
        (good, bad),
        project.settings.runs,
        [*options_of(given)],
        lambda line: out.print(line, markup=False),
    )
    tell(found, repository, first_failure_at(records, one.cell.id, found.revisions[-1]))
    raise typer.Exit(0 if len(found.open) == 1 else EXIT_NOTHING_SELECTED)


def tell(found: Bisection, repository: Repository, known: str = "") -> None:
    """Print what was tried, and the commit; or those that could not be told apart.

    Args:
        known: what failed first at the bad revision that was given, by the history.
    """
    for line in ordered(found, [repository.revision(one).title.partition(" ")[2] for one in found.revisions]):
        out.print(line, markup=False)
    if len(found.open) > 1:
        out.print(f"one of these {len(found.open)} commits, which could not be told apart:", markup=False)
    for name in found.open:
        commit = repository.revision(name)
        out.print(f"{commit.title}\n  commit {commit.name}\n  author {commit.author}, {commit.date}", markup=False)
    tried = found.trials.get(found.open[-1])
    said = tried.said if tried is not None else known if found.open[-1] == found.revisions[-1] else ""
    if said:
        out.print(f"  first failure: {said}", markup=False)
    for later in found.otherwise:
        title = repository.revision(later).title
        out.print(
            f"warning: {title} failed first in {': '.join(found.trials[later].failed)}", style="yellow", markup=False
        )
    if found.otherwise:
        out.print("  so this may be another fault, or a check that is not steady: run the commit again", markup=False)
