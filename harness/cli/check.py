"""`vmatrix check`: the checks of a cell that was kept, once more."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated

import typer
from rich.console import Console

from harness.cli.options import CLUSTER, Given, takes
from harness.cli.run import checks_of, options_of, refuse_expression
from harness.session.again import plan_again
from harness.session.choice import project_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes(*CLUSTER, "access", "runs", "timeout_scale")(check))


def check(
    given: Given,
    cell: Annotated[str, typer.Argument(metavar="CELL", help="Cell id; `vmatrix status` lists the cells that exist.")],
    suite: Annotated[
        list[str] | None, typer.Option(metavar="SUITE", help="Only the checks of this suite; can be repeated.")
    ] = None,
    select: Annotated[str | None, typer.Option("-k", help="Only matching checks (as pytest -k).")] = None,
) -> None:
    """Check a kept cell again, any number of times: after a repair by hand, or with changed checks.

    Nothing is made and nothing is deleted. `vmatrix run --keep always` or `--keep failed` keeps cells.
    """
    refuse_expression(select)
    again = plan_again(project_of(given), cell, suite or ())
    argv = [*checks_of(again.plan), "-p", "no:cacheprovider", "--again", cell, *options_of(given)]
    argv += [word for one in suite or () for word in ("--suite", one)]
    argv += ["-k", select] if select is not None else []
    Console(stderr=True).print("$ " + shlex.join(["pytest", *argv]), highlight=False, soft_wrap=True, markup=False)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *argv])  # noqa: S606 - becomes that call; signals reach it
