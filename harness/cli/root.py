"""Root command: the options of `vmatrix` itself, and its commands, loaded late, alone or together.

Commands that pods of the operator run are put together alone: what waits for such a pod waits for its start, and all
commands together take twice the processor time to load.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from harness import __version__
from harness.cli.plain import CommandSet, WordedCommand, WordedGroup
from harness.errors import EXIT_BAD_INPUT
from harness.paths import PRODUCT, PROJECT
from harness.startup import unplugged, unsearched

KNOWN = {
    "init": "Create a project. Asks on a terminal if no option says what to begin with. Overwrites no file.",
    "run": "Run cells: provision, deploy, check, collect logs, tear down, report.",
    "check": "Check a kept cell again, any number of times: after a repair by hand, or with changed checks.",
    "bisect": "Find the commit of the project's repository since which a cell fails, by bisection.",
    "suspect": "Rank what may explain the failures of RUN: values, pairs and triples that failing cells have.",
    "list": "List planned cells. `vmatrix run` with the same selection runs exactly these.",
    "status": "Show existing cells and their machines.",
    "reap": "Delete cells, from any machine with a kubeconfig. In a CI job, only cells of the job's project.",
    "login": "Log in to a machine of a cell, or run a command on it.",
    "logs": "Print what a cell's machines write to their consoles and journals, and what the product's phases print.",
    "proxy": "Connect standard input and output to a port of a machine, for use as an SSH ProxyCommand.",
    "kubeconfig": "Print the path of the guest cluster's kubeconfig.",
    "kubectl": "Run kubectl on the guest cluster: `vmatrix kubectl CELL -- get nodes`.",
    "explain": "Print what planned cells will be: why they exist, machines, manifests, inventory, commands, checks.",
    "plan": "Plan the cells of each tier and prove what they cover.",
    "report": "Report what failed, since when, whose fault it is and what did not run: a page, a note, JSON, badges.",
    "config": "Print every setting, its value and where it comes from.",
    "schema": "Write the JSON Schemas of matrix/*.yml and vmatrix.yml into the project, for editors.",
    "docs": "Print a page of the documentation that ships with vmatrix, or list all pages.",
    "doctor": "Check what the provider needs of this host or of its cluster, and print how to fix what is missing.",
    "version": "Print the version.",
    "conformance": "Upstream's own specs: list them, and export a run of them.",
    "artifacts": "Build, download, cache and serve binaries and container images.",
    "image": "Build, list and prune disk images of machines.",
    "infra": "Create, inspect and delete infra clusters on this host.",
    "gitlab": "Commands for the jobs of a GitLab pipeline.",
    "history": "Show and edit the history of cell runs that `vmatrix report` reads.",
    "operator": "Clusters as declared objects: what the operator needs, does and did.",
}
GROUPS = ("conformance", "artifacts", "image", "infra", "gitlab", "history", "operator")
MODULES = {
    **{name: name for name in KNOWN},
    "list": "listing",
    **dict.fromkeys(("bisect", "suspect"), "culprits"),
    **dict.fromkeys(("status", "reap"), "cells"),
    **dict.fromkeys(("login", "proxy", "kubeconfig", "kubectl", "logs"), "reach"),
    **dict.fromkeys(("config", "schema", "docs"), "settings"),
    "history": "report",
}
ROOT_OPTIONS = {
    "name": "vmatrix",
    "no_args_is_help": True,
    "add_completion": True,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["--help", "-h"]},
    "help": "Real Kubernetes clusters for every combination of your deployment code that matters.",
}
OPERATOR = "operator"
POD_COMMANDS = {
    "run": "harness.cli.operator_run",
    "execute": "harness.cli.operator_execute",
    "manifests": "harness.cli.operator_manifests",
}


def together() -> CommandSet:
    """Return all commands, loaded: for tests, for the reference, for whoever looks at them all."""
    app = CommandSet(**ROOT_OPTIONS)
    app.callback()(name_project)
    for name in GROUPS:
        app.add_typer(import_module(f"harness.cli.{MODULES[name]}").app, name=name)
    for module in dict.fromkeys(MODULES[name] for name in MODULES if name not in GROUPS):
        import_module(f"harness.cli.{module}").register(app)
    return app


def late() -> Any:
    """Return all commands, none of them loaded yet."""
    app = CommandSet(cls=LateGroup, **ROOT_OPTIONS)
    app.callback()(name_project)
    return typer.main.get_command(app)


def program(words: Sequence[str]) -> typer.Typer | None:
    """Return a command line's own command, as it is among all others; None where it is none of these."""
    if words[:1] != [OPERATOR] or len(words) < 2 or words[1] not in POD_COMMANDS:
        return None
    app, group = CommandSet(name="vmatrix", pretty_exceptions_enable=False), CommandSet()
    import_module(POD_COMMANDS[words[1]]).register(group)
    group.callback()(lambda: None)
    app.add_typer(group, name=OPERATOR)
    app.info.context_settings = {"help_option_names": ["--help", "-h"]}
    app.callback()(lambda: None)
    return app


class LateCommand(WordedCommand):
    """A command of which only the name and the first sentence are known."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Load the command, and begin with it."""
        with unsearched(), unplugged():
            return loaded(str(self.name)).make_context(info_name, args, parent=parent, **extra)


class LateGroup(WordedGroup):
    """All commands, each loaded when it is called. Their list is plain text: nothing has to be loaded for it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "rich_markup_mode": None})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words; where there are none, print the help, and end with the exit code of a mistake."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(EXIT_BAD_INPUT)
        with unsearched():  # it loads pydantic
            return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command's name and its whole first sentence."""
        with formatter.section("Commands"):
            formatter.write_dl([*KNOWN.items()])

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(KNOWN)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words begin with; where there is none, the names that look like it are said."""
        self.commands = {name: self.get_command(ctx, name) for name in KNOWN}
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command that is loaded later; None where there is none of that name."""
        return LateCommand(cmd_name, help=KNOWN[cmd_name], callback=lambda: None) if cmd_name in KNOWN else None


def loaded(name: str) -> Any:
    """Return a command, or a group of commands, as its module has it."""
    module = _imported(f"harness.cli.{MODULES[name]}")
    if name in GROUPS:
        group: Any = typer.main.get_group(module.app)
        group.name = name
        return group
    app = CommandSet()
    app.callback()(lambda: None)
    module.register(app)
    return typer.main.get_group(app).commands[name]


def _imported(name: str) -> ModuleType:
    """Import a command's module. What is imported stays until the end, so no search for garbage goes through it."""
    with unsearched():
        try:
            return import_module(name)
        finally:
            gc.freeze()


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
    for variable, path in ((PROJECT, project), (PRODUCT, product_file)):
        if path is not None:
            os.environ[variable] = str(path.resolve())


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit
