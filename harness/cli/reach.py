"""`vmatrix login | proxy | kubeconfig | kubectl`: connect to a cell that exists."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from harness import proc, providers
from harness.cell.existing import Existing, InfraAccess, existing
from harness.cell.machines import SSH_PORT
from harness.cli import complete
from harness.cli.options import CLUSTER, Given, settings_of, takes
from harness.cli.plain import WordedCommand
from harness.errors import BadInput
from harness.machines.reach.ssh import ssh_command
from harness.spec.settings import Settings

INPUT, OUTPUT = 0, 1  # file descriptors
Cell = Annotated[str, typer.Argument(metavar="CELL", help="Cell id.", autocompletion=complete.made)]
MachineName = Annotated[
    str,
    typer.Argument(metavar="MACHINE", help="Machine name, such as cp-0.", autocompletion=complete.machines),
]


class KubectlCommand(WordedCommand):
    """Leaves everything after the first word behind the cell to kubectl, which has options of the same names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage, with those that are kubectl's."""
        return [*super().collect_usage_pieces(ctx), "-- ARGUMENTS..."]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `--` where the words for kubectl begin."""
        values = {flag for one in self.params for flag in one.opts if flag.startswith("-") and one.name != "help"}
        words = 0
        for position, word in enumerate(args):
            if word == "--":
                break
            if word.startswith("-") or (position > 0 and args[position - 1] in values):
                continue
            words += 1
            if words == 2:
                return super().parse_args(ctx, [*args[:position], "--", *args[position:]])
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(takes(*CLUSTER, "access")(login))
    app.command()(takes(*CLUSTER)(proxy))
    app.command()(takes(*CLUSTER, "access")(kubeconfig))
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(cls=KubectlCommand, context_settings=passed_on)(takes(*CLUSTER, "access")(kubectl))


def cell_at(cell: str, settings: Settings) -> Existing:
    """Return the newest attempt at a cell that exists. Raises BadInput when there is none."""
    infra = providers.of(settings).infra(settings)
    access = InfraAccess(providers.open_cluster(settings), infra, settings.namespace, settings.access)
    return existing(access, cell, settings.runs)


def remote_command(words: Sequence[str]) -> list[str]:
    """Return what ssh is to run: the one line that the machine's shell splits into the same words again."""
    return [shlex.join(words)] if len(words) > 1 else list(words)


def login(
    given: Given,
    cell: Cell,
    machine: MachineName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Command to run instead of a shell.")
    ] = None,
) -> None:
    """Log in to a machine of a cell, or run a command on it.

    A command of one word is a line for the machine's shell; several words reach it as they are.
    """
    there = cell_at(cell, settings_of(given))
    there.instance(machine)
    key = there.file(there.files.key, "the cell's private key")
    argv = ssh_command(there.machine(machine), key)
    os.execvp(argv[0], [*argv[:1], "-t", *argv[1:], *remote_command(command or ())])  # noqa: S606 - replaces this process


def proxy(
    given: Given,
    cell: Cell,
    machine: MachineName,
    port: Annotated[int, typer.Argument(metavar="PORT", help="TCP port of the machine.", min=1, max=65535)] = SSH_PORT,
) -> None:
    """Connect standard input and output to a port of a machine, for use as an SSH ProxyCommand.

    The connection goes through the infra cluster's API.
    """
    if sys.stdin is None:
        raise BadInput("standard input is closed", hint="ssh opens it for a ProxyCommand; by hand, use a pipe")
    cell_at(cell, settings_of(given)).connect(machine, port, INPUT, OUTPUT)


def kubeconfig(given: Given, cell: Cell) -> None:
    """Print the path of the guest cluster's kubeconfig.

    With access `portforward`, the kubeconfig works until you press Ctrl-C.
    """
    there = cell_at(cell, settings_of(given))
    with there.guest_api() as path:
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
        if path != there.files.kubeconfig:
            said = f"export KUBECONFIG={path}   # connects through the infra cluster's API until you press Ctrl-C here"
            Console(stderr=True, highlight=False, soft_wrap=True).print(said, markup=False)
            threading.Event().wait()


def kubectl(given: Given, call: typer.Context, cell: Cell) -> None:
    """Run kubectl on the guest cluster: `vmatrix kubectl CELL -- get nodes`.

    Options of vmatrix come before kubectl's arguments.
    """
    settings = settings_of(given)
    there = cell_at(cell, settings)
    program = shutil.which("kubectl") or providers.kubectl(settings)
    with there.guest_api() as path:
        environment = {"KUBECONFIG": str(path), "KUBECACHEDIR": str(there.files.kube_cache)}
        status = proc.attend([program, *call.args], env=environment)
    raise typer.Exit(status)
