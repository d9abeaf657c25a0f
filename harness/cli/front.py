"""What stands before every command: the options of `vmatrix` itself, and all commands, loaded when they are called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import __version__
from harness.cli.later import LateGroup
from harness.cli.plain import CommandSet
from harness.paths import PRODUCT, PROJECT

SAID = {
    "name": "vmatrix",
    "no_args_is_help": True,
    "add_completion": True,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["--help", "-h"]},
    "help": "Real Kubernetes clusters for every combination of your deployment code that matters.",
}


def late() -> Any:
    """Return all commands, none of them loaded yet."""
    app = CommandSet(cls=LateGroup, **SAID)
    app.callback()(name_project)
    return typer.main.get_command(app)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


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
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Name the project and its product for all commands, and for the pytest call that `vmatrix run` becomes."""
    for variable, given in ((PROJECT, project), (PRODUCT, product_file)):
        if given is not None:
            os.environ[variable] = str(given.resolve())
