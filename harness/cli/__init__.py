"""The `vmatrix` command: maps options to calls and errors to exit codes; nothing else."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness import __version__
from harness.cli import (
    artifacts,
    cells,
    doctor,
    explain,
    gitlab,
    history,
    image,
    infra,
    init,
    operator,
    plan,
    reach,
    report,
    run,
    settings,
)
from harness.errors import EXIT_HARNESS, VmatrixError
from harness.paths import PRODUCT, PROJECT

app = typer.Typer(
    name="vmatrix",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Real Kubernetes clusters for every combination of your deployment code that matters.",
)
for group in (artifacts, image, infra, gitlab, history, operator):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])
for module in (init, run, cells, reach, explain, plan, report, settings, doctor):
    module.register(app)


@app.callback()
def name_project(
    project: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Project; default: the nearest folder from here upward with vmatrix.yml or matrix/.",
        ),
    ] = None,
    product_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Product file; default: matrix/product.yml of the project."),
    ] = None,
) -> None:
    """Name the project and its product for all commands, and for the pytest call that `vmatrix run` becomes."""
    for variable, given in ((PROJECT, project), (PRODUCT, product_file)):
        if given is not None:
            os.environ[variable] = str(given.resolve())


@app.command()
def version() -> None:
    """Print the version."""
    Console().print(__version__, highlight=False)


def main() -> None:
    """Run the command and end the process with its exit code."""
    verbose = "-vv" in sys.argv
    if verbose:
        sys.argv.remove("-vv")
    try:
        app(standalone_mode=True)
    except VmatrixError as error:
        show(error)
        if verbose:
            traceback.print_exc()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug of ours, reported as one
        Console(stderr=True).print(f"error: {type(error).__name__}: {error}", markup=False)
        Console(stderr=True).print("this is a bug in vmatrix: repeat with -vv and report the traceback", markup=False)
        if verbose:
            traceback.print_exc()
        sys.exit(EXIT_HARNESS)


def show(error: VmatrixError) -> None:
    """Print an error as a person reads it: what, details, where to look, what to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"error ({error.blame.value}): {error.summary}", markup=False, style="red")
    if error.detail:
        console.print("\n".join(f"  {line}" for line in error.detail.splitlines()), markup=False)
    for path in error.paths:
        console.print(f"  see: {path}", markup=False)
    if error.hint:
        console.print(f"hint: {error.hint}", markup=False)
