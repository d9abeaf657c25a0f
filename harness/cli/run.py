"""`vmatrix run`: the pytest call that runs cells: it is printed, and this process becomes it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from harness import proc
from harness.cli import options
from harness.cli.options import SharedOptions, takes
from harness.cli.output import tell_idle
from harness.errors import EXIT_BAD_INPUT, EXIT_NOTHING_SELECTED, EXIT_OK, BadInput, VmatrixError
from harness.interpreter import PYTEST, call
from harness.paths import packaged_dir
from harness.session import RunPlan, plan_run
from harness.session.exit_codes import repeated, worst
from harness.session.follow_up import Pursuit, pursue
from harness.session.selection import words_of_own
from harness.spec.options import OPTIONS, RUN, RunRequest, settings_in
from harness.spec.project import checks_dir
from harness.spec.settings import RESOLVED
from harness.streams import plain_console

AUTO = "auto"
ONCE = ("run_id", "rerun_failed", "into")  # what more than one run cannot have
LONGEST_SAID = 60  # characters of an expression that a message repeats
SELECTING = ("tier", "rerun_failed", "failed", "changed_since")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes(*RUN)(run))


def run(
    shared: SharedOptions,
    cells: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CELL",
            help="Cell ids, globs of ids, AXIS=VALUE; default: all cells of the tier.",
            autocompletion=options.planned,
        ),
    ] = None,
    select: Annotated[str | None, typer.Option("-k", help="Run only matching checks (as pytest -k).")] = None,
    parallel: Annotated[
        str, typer.Option(help="Maximum number of cells at a time, or `auto`: as many as fit.", metavar="N")
    ] = AUTO,
    repeat: Annotated[
        int, typer.Option(min=1, max=1000, help="Run all of it N times, each a run of its own.", metavar="N")
    ] = 1,
) -> None:
    """Run cells: provision, deploy, check, collect logs, tear down, report.

    Without a cell, tier or other selection, runs tier `smoke`.
    """
    if not cells and all(shared.get(name) is None for name in SELECTING):
        shared = {**shared, "tier": "smoke"}
    refuse_expression(select)
    if repeat > 1 and any(shared.get(name) is not None for name in ONCE):
        raise BadInput(
            "--repeat makes runs with ids of their own", hint="leave out --run-id, --rerun-failed and --into"
        )
    chosen = tuple(cells or ())
    resolved = RunRequest.of(shared).sourced()
    plan = plan_run(RunRequest.of(shared, cells=chosen, resolved=resolved))  # refuses bad input before pytest starts
    tell_idle(plan.project.spec)
    if plan.night is not None and shared.get("rerun_failed") is None and shared.get("into") is None:
        shared = {**shared, "night": str(plan.night)}  # a night that begins in the meantime changes nothing
    checks, shell = [*checks_of(plan)], bool(shared.get("shell"))
    side_by_side = workers("1" if shell else parallel, len(plan.cells), apart=has_own(checks) and not shell)
    follow = repeat == 1 and follows(plan, shared, chosen)
    if follow:
        shared = {**shared, "run_id": plan.run}  # the cells that follow are added to it
    argv = [*checks, "-p", "no:cacheprovider", *options_of(shared)]
    pairs = [("-n", side_by_side), ("-k", select), *(("--cell", cell) for cell in chosen)]
    argv += [word for option, value in pairs if value is not None for word in (option, value)]
    plain_console(stderr=True).print("$ " + shlex.join(["pytest", *argv]))
    os.environ[RESOLVED] = resolved.dump()
    if repeat > 1:
        raise typer.Exit(repeated(argv, repeat, fail_fast=bool(shared.get("fail_fast"))))
    if follow:
        raise typer.Exit(followed(plan, shared, argv))
    os.execv(sys.executable, call(PYTEST, *argv))  # noqa: S606 - becomes that call; signals reach it


def follows(plan: RunPlan, shared: SharedOptions, chosen: Sequence[str]) -> bool:
    """Tell whether a run of a whole tier is followed up, as its tier says."""
    part = ("rerun_failed", "into", "failed", "changed_since", "fail_fast", "shell")
    if plan.tier is None or chosen or any(shared.get(name) for name in part):
        return False
    tier = plan.project.spec.tiers[plan.tier]
    return bool(tier.follow_up or tier.bisect)


def followed(plan: RunPlan, shared: SharedOptions, argv: Sequence[str]) -> int:
    """Run the cells, then what tells apart what may explain their failures; return the exit code of the run.

    What follows changes it only by a leak, a bug in vmatrix or a signal.
    """
    tier = plan.project.spec.tiers[plan.tier or ""]
    code = worst([proc.attend(call(PYTEST, *argv))])
    if proc.by_signal(code) or code in (EXIT_OK, EXIT_BAD_INPUT, EXIT_NOTHING_SELECTED):
        return code
    os.environ.pop(RESOLVED, None)  # is about this run's cells
    console = plain_console(stderr=True)
    options = [*options_of(settings_in(shared))]
    pursuit = Pursuit(plan.project, plan.run, options, lambda line: console.print(line))
    try:
        return worst([pursue(pursuit, tier.follow_up, bisect=tier.bisect)]) or code
    except VmatrixError as error:
        console.print(f"the failures were not followed up: {error.summary}; {error.hint}")
        return code


def checks_of(plan: RunPlan) -> Iterator[str]:
    """Yield the folders of the checks, and the only places of pytest's settings and conftest.py."""
    own = words_of_own(plan.project.directory, plan.suites())
    settings = ("-c", str(packaged_dir() / "pyproject.toml"), "--confcutdir", str(checks_dir()))
    yield from (str(checks_dir()), *(own or settings))


def has_own(checks: Sequence[str]) -> bool:
    """Tell whether the words about checks name some of the project's own."""
    return "--rootdir" in checks


def options_of(shared: SharedOptions) -> Iterator[str]:
    """Yield the options that were given as pytest takes them."""
    for name in (name for name in RUN if name in shared):
        value, flag = shared[name], OPTIONS[name].flag
        if isinstance(value, bool):
            yield flag if value else f"--no-{flag[2:]}"
        elif value is not None:
            yield from (flag, str(value))


def refuse_expression(select: str | None) -> None:
    """Refuse what pytest could not read after -k."""
    if select is None:
        return
    from _pytest.mark.expression import Expression  # pytest's own, which has no public name; loads half of pytest

    words = select if len(select) <= LONGEST_SAID else f"{select[:LONGEST_SAID]}..."
    try:
        Expression.compile(select)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:  # also Python's own, which pytest calls
        deep = "it is nested too deeply, or has a character that no expression has"
        reason = error.msg if isinstance(error, SyntaxError) else deep
        raise BadInput(
            f"-k {words!r} is not an expression: {reason}", hint='for example -k "nodes and not dns"'
        ) from error


def workers(parallel: str, cells: int, *, apart: bool = False) -> str | None:
    """Return the value of pytest's -n; None for one cell after the other.

    Args:
        apart: whether checks have a process apart in any case: own checks may end theirs, and another ends the run.

    Raises:
        BadInput: neither `auto` nor a number from 1 on.
    """
    if parallel != AUTO and not (parallel.isdecimal() and int(parallel) >= 1):
        raise BadInput(f'--parallel {parallel!r} must be "auto" or a positive integer', hint="for example --parallel 4")
    if cells == 1 or parallel == "1":
        return "1" if apart else None
    return AUTO if parallel == AUTO else str(min(int(parallel), cells))
