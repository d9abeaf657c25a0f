"""`vmatrix check`: the checks of a cell that was kept, once more."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import Annotated, NoReturn

import typer

from harness import proc
from harness.cli import options
from harness.cli.options import CLUSTER, OfRun, SharedOptions, takes
from harness.cli.run import checks_of, has_own, options_of, refuse_expression
from harness.errors import BadInput
from harness.interpreter import PYTEST, call
from harness.paths import PROJECT, enclosing_project, named_project, packaged_dir
from harness.rundir import RunDir
from harness.session import RunPlan
from harness.session.exit_codes import repeated
from harness.session.given_cluster import given_cluster, plan_foreign
from harness.session.recheck import plan_recheck
from harness.session.selection import project_of
from harness.spec.options import RunRequest
from harness.spec.settings import RESOLVED
from harness.streams import plain_console

Repeat = Annotated[
    int, typer.Option(min=1, max=1000, help="Run them N times, and say how often they failed.", metavar="N")
]
Facts = Annotated[Path | None, typer.Option(metavar="FILE", help="With --inventory: what the cluster must look like.")]
Suites = Annotated[
    list[str] | None, typer.Option(metavar="SUITE", help="Only the checks of this suite; can be repeated.")
]


FROM_OUTSIDE = (SIGINT, SIGTERM, SIGKILL)  # signals that anybody may have sent


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes(*CLUSTER, "access", "runs", "timeout_scale")(check))


def check(
    shared: SharedOptions,
    cell: Annotated[
        str | None,
        typer.Argument(
            metavar="CELL",
            help="Cell id; `vmatrix status` lists the cells that exist.",
            autocompletion=options.made,
        ),
    ] = None,
    inventory: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Instead of CELL: check the cluster of --kubeconfig, with these machines; can be repeated.",
        ),
    ] = None,
    facts: Facts = None,
    suite: Suites = None,
    select: Annotated[str | None, typer.Option("-k", help="Only matching checks (as pytest -k).")] = None,
    run: OfRun = None,
    repeat: Repeat = 1,
) -> None:
    """Check a kept cell again, any number of times: after a repair by hand, or with changed checks.

    Checks delete the pods that they create, and change nothing else; only `--suite idempotence` runs a phase again.
    `vmatrix run --keep always` or `--keep failed` keeps cells. With --kubeconfig and --inventory, check a cluster that
    vmatrix did not make.
    """
    refuse_expression(select)
    _refuse_unclear(cell, inventory, facts, run)
    if inventory:
        plan, what = _foreign(shared, inventory, facts, suite or ())
    else:
        resolved = RunRequest.of(shared).sourced()
        os.environ[RESOLVED] = resolved.dump()
        plan = plan_recheck(project_of(shared, resolved), str(cell), suite or (), run).plan
        what = ["--recheck", str(cell), *(["--recheck-run", run] if run is not None else [])]
    argv = [*checks_of(plan), "-p", "no:cacheprovider", *what, *options_of(shared)]
    argv += [word for name in suite or () for word in ("--suite", name)]
    argv += ["-k", select] if select is not None else []
    _begin(argv, repeat, RunDir(plan.directory).results)


def _foreign(
    shared: SharedOptions, inventory: list[Path], facts: Path | None, suites: Sequence[str]
) -> tuple[RunPlan, list[str]]:
    """Return the plan for a cluster that vmatrix did not make, and the words that name it to pytest."""
    if named_project() is None and enclosing_project() is None:
        os.environ[PROJECT] = str(packaged_dir())  # a cluster can be checked from anywhere
    plan = plan_foreign(given_cluster(shared, inventory, facts), suites).plan
    files = (*(("--inventory", path) for path in inventory), ("--facts", facts))
    return plan, [word for flag, file in files if file is not None for word in (flag, str(file.absolute()))]


def _begin(argv: Sequence[str], repeat: int, results: Path) -> NoReturn:
    """Become the call of pytest, which signals then reach; or make it several times.

    Own checks may end the process that they run in: somebody else has to say so then.
    """
    plain_console(stderr=True).print("$ " + shlex.join(["pytest", *argv]))
    if repeat > 1:
        raise typer.Exit(repeated(argv, repeat, fail_fast=False))
    if has_own(argv):
        code = proc.attend(call(PYTEST, *argv))
        if code < 0 and -code not in FROM_OUTSIDE:
            raise BadInput(
                f"the process that ran the checks was ended by {Signals(-code).name}: one of your own checks did that",
                hint="correct it: what was checked before is in the results, and what Python says of it above",
                paths=(results,),
            )
        raise typer.Exit(code if code >= 0 else 128 - code)
    os.execv(sys.executable, call(PYTEST, *argv))  # noqa: S606


def _refuse_unclear(cell: str | None, inventory: list[Path] | None, facts: Path | None, run: str | None) -> None:
    if run is not None and cell is None:
        raise BadInput("--run says which run a kept cell is of; give CELL", hint="leave it out with --inventory")
    if cell is not None and inventory:
        raise BadInput(
            "CELL and --inventory exclude each other",
            hint="pass CELL for a kept cell, --inventory for any other cluster",
        )
    if cell is None and not inventory:
        raise BadInput(
            "nothing to check: give CELL, or --kubeconfig and --inventory of a cluster of your own",
            hint="`vmatrix status` lists the cells that exist",
        )
    if facts is not None and not inventory:
        raise BadInput(
            "--facts is about a cluster with --inventory",
            hint="leave it out: a kept cell has its matrix",
        )
