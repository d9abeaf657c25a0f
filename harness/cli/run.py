"""`vmatrix run`: the pytest call that runs cells: it is printed, and this process becomes it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.errors import BadInput
from harness.paths import project_dir
from harness.session import Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": False},
    )(run)


def run(
    cells: Annotated[list[str] | None, typer.Argument(help="Cell ids or globs; all of the tier without any.")] = None,
    tier: Annotated[str | None, typer.Option(help="Tier of matrix/tiers.yml; `smoke` when no cell is named.")] = None,
    provider: Annotated[str | None, typer.Option(help="local or kubeconfig.")] = None,
    infra_name: Annotated[str | None, typer.Option(help="Name of the embedded infrastructure.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig of the infra cluster.")] = None,
    runs: Annotated[Path | None, typer.Option(help="Directory of the runs' results.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Six lower-case letters or digits.")] = None,
    timeout_scale: Annotated[float | None, typer.Option(help="Factor on every timeout.")] = None,
    keep_on_failure: Annotated[bool, typer.Option(help="Keep failed cells until they expire.")] = False,
    select: Annotated[str | None, typer.Option("-k", help="Only checks that match (pytest's -k).")] = None,
) -> None:
    """Run cells: provision, deploy, check, collect, tear down, report."""
    if tier is None and not cells:
        tier = "smoke"
    options = {"provider": provider, "infra_name": infra_name, "kubeconfig": kubeconfig, "runs": runs}
    Session.plan(
        tier=tier,
        patterns=cells or [],
        options={**options, "timeout_scale": timeout_scale},
        run_id=run_id,
        command="",
    )  # refuses bad input before pytest starts
    given = {
        "--tier": tier,
        "--provider": provider,
        "--infra-name": infra_name,
        "--infra-kubeconfig": kubeconfig,
        "--runs": runs,
        "--run-id": run_id,
        "--timeout-scale": timeout_scale,
        "-k": select,
    }
    argv = [str(suites()), "-p", "no:cacheprovider"]
    for option, value in given.items():
        if value is not None:
            argv += [option, str(value)]
    for cell in cells or []:
        argv += ["--cell", cell]
    if keep_on_failure:
        argv.append("--keep-on-failure")
    Console(stderr=True).print("$ " + shlex.join(["pytest", *argv]), highlight=False, soft_wrap=True, markup=False)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *argv])  # noqa: S606 - becomes that call; signals reach it


def suites() -> Path:
    """Return the folder of the checks.

    Raises:
        BadInput: it is not there (a package installed without its checkout).
    """
    found = project_dir() / "tests" / "cells"
    if not found.is_dir():
        raise BadInput(
            f"{found} does not exist", hint="run vmatrix from its checkout, or set VMATRIX_PROJECT to the checkout"
        )
    return found
