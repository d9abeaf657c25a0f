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
from harness.session import plan_run

AUTO = "auto"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": False},
    )(run)


def run(
    cells: Annotated[
        list[str] | None, typer.Argument(help="Ids, globs, AXIS=VALUE; all of the tier without any.")
    ] = None,
    tier: Annotated[str | None, typer.Option(help="Tier of matrix/tiers.yml; `smoke` when no cell is named.")] = None,
    provider: Annotated[str | None, typer.Option(help="local or kubeconfig.")] = None,
    infra_profile: Annotated[str | None, typer.Option("--infra-profile", "--infra-kind", help="Infra profile.")] = None,
    infra_name: Annotated[str | None, typer.Option(help="Name of the embedded infrastructure.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig of the infra cluster.")] = None,
    namespace: Annotated[str | None, typer.Option(help="One that exists, for all cells.")] = None,
    access: Annotated[
        str | None, typer.Option(help="How machines are reached: direct or portforward; the provider's choice.")
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="Directory of the runs' results.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Six lower-case letters or digits.")] = None,
    timeout_scale: Annotated[float | None, typer.Option(help="Factor on every timeout.")] = None,
    keep_on_failure: Annotated[bool, typer.Option(help="Keep failed cells until they expire.")] = False,
    select: Annotated[str | None, typer.Option("-k", help="Only checks that match (pytest's -k).")] = None,
    parallel: Annotated[
        str, typer.Option(help="Cells side by side at most; `auto`: as many as there is room for.")
    ] = "auto",
    failed: Annotated[str | None, typer.Option(help="Only what did not pass in a run (or the `last`).")] = None,
    changed_since: Annotated[
        str | None, typer.Option(help="Only what files changed since a git revision can affect.")
    ] = None,
    shard: Annotated[str | None, typer.Option(help="I/N: only the I-th of N parts, balanced by duration.")] = None,
    rerun_failed: Annotated[
        str | None, typer.Option(help="Run what failed in a run (or the `last`) once more.")
    ] = None,
    max_memory_mib: Annotated[int | None, typer.Option(help="Most memory that this run may hold at a time.")] = None,
    max_cpus: Annotated[float | None, typer.Option(help="Most CPUs that this run may hold at a time.")] = None,
    max_machines: Annotated[int | None, typer.Option(help="Most machines that this run may hold at a time.")] = None,
) -> None:
    """Run cells: provision, deploy, check, collect, tear down, report."""
    if tier is None and not cells and rerun_failed is None and failed is None and changed_since is None:
        tier = "smoke"
    settings = {
        "provider": provider,
        "infra_profile": infra_profile,
        "infra_name": infra_name,
        "kubeconfig": kubeconfig,
        "namespace": namespace,
        "access": access,
        "runs": runs,
        "timeout_scale": timeout_scale,
        "max_memory_mib": max_memory_mib,
        "max_cpus": max_cpus,
        "max_machines": max_machines,
    }
    plan = plan_run(
        tier=tier,
        patterns=cells or [],
        options=settings,
        run_id=run_id,
        failed=failed,
        changed=changed_since,
        shard=shard,
        rerun=rerun_failed,
    )  # refuses bad input before pytest starts
    given = {
        "-n": workers(parallel, len(plan.cells)),
        "--tier": tier,
        **{
            "--" + ("infra-" if name in ("kubeconfig", "namespace") else "") + name.replace("_", "-"): v
            for name, v in settings.items()
        },
        "--run-id": run_id,
        "--failed": failed,
        "--changed-since": changed_since,
        "--shard": shard,
        "--rerun-failed": rerun_failed,
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


def workers(parallel: str, cells: int) -> str | None:
    """Return what pytest's -n gets; None for one cell after the other.

    Raises:
        BadInput: neither `auto` nor a number from 1 on.
    """
    if parallel != AUTO and not (parallel.isdecimal() and int(parallel) >= 1):
        raise BadInput(f"--parallel {parallel!r} is no number of cells", hint="pass auto, or a number from 1 on")
    if cells == 1 or parallel == "1":
        return None
    return AUTO if parallel == AUTO else str(min(int(parallel), cells))


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
