"""All commands of `vmatrix`, put together."""

from __future__ import annotations

import os
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
