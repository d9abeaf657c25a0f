"""What stands before every command: the options of `vmatrix` itself, and its commands, loaded late, alone or together.

Commands that pods of the operator run are put together alone: what waits for such a pod waits for its start, and all
commands together take twice the processor time to load.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import __version__
from harness.cli.later import GROUPS, MODULES, LateGroup
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

OPERATOR = "operator"
PROGRAMS = {
    "run": "harness.cli.operator_run",
    "execute": "harness.cli.operator_execute",
    "manifests": "harness.cli.operator_manifests",
}


def together() -> CommandSet:
    """Return all commands, loaded: for tests, for the reference, for whoever looks at them all."""
    app = CommandSet(**SAID)
    app.callback()(name_project)
    for name in GROUPS:
        app.add_typer(import_module(f"harness.cli.{MODULES[name]}").app, name=name)
    for module in dict.fromkeys(MODULES[name] for name in MODULES if name not in GROUPS):
        import_module(f"harness.cli.{module}").register(app)
    return app


def program(words: Sequence[str]) -> typer.Typer | None:
    """Return a command line's own command, as it is among all others; None where it is none of these."""
    if words[:1] != [OPERATOR] or len(words) < 2 or words[1] not in PROGRAMS:
        return None
    app, group = CommandSet(name="vmatrix", pretty_exceptions_enable=False), CommandSet()
    import_module(PROGRAMS[words[1]]).register(group)
    group.callback()(lambda: None)
    app.add_typer(group, name=OPERATOR)
    app.info.context_settings = {"help_option_names": ["--help", "-h"]}
    app.callback()(lambda: None)
    return app


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
