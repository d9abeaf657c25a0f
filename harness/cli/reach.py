"""`vmatrix login | proxy | kubeconfig | kubectl | logs`: connect to a cell that exists, and read what it logs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from harness import proc, providers
from harness.cell.existing import Existing, InfraAccess, existing
from harness.cell.logs import LOG_SOURCES, Followed, LogLine, LogWish, last_lines
from harness.cell.machines import SSH_PORT
from harness.cli import options
from harness.cli.options import CLUSTER, OfRun, SharedOptions, settings_of, takes
from harness.cli.plain import WordedCommand
from harness.errors import BadInput
from harness.machines.reach.ssh import ssh_command
from harness.rundir import RunDir
from harness.spec.settings import Settings
from harness.spec.shape import unknown
from harness.streams import plain_console

INPUT, OUTPUT = 0, 1  # file descriptors
Cell = Annotated[str, typer.Argument(metavar="CELL", help="Cell id.", autocompletion=options.made)]
MachineName = Annotated[
    str,
    typer.Argument(metavar="MACHINE", help="Machine name, such as cp-0.", autocompletion=options.machines),
]


class KubectlCommand(WordedCommand):
    """Leaves everything after the first word behind the cell to kubectl, which has options of the same names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage, with those that are kubectl's."""
        return [*super().collect_usage_pieces(ctx), "-- ARGUMENTS..."]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `--` where the words for kubectl begin."""
        values = {
            flag
            for parameter in self.params
            for flag in parameter.opts
            if flag.startswith("-") and parameter.name != "help"
        }
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
    app.command()(takes(*CLUSTER, "access", "runs")(logs))


def cell_at(cell: str, settings: Settings, run: str | None = None) -> Existing:
    """Return the newest attempt at a cell that exists, and say which it is where several runs have that cell.

    Raises:
        BadInput: there is none, of the run if one is named.
    """
    infra = providers.of(settings).infra(settings)
    access = InfraAccess(providers.open_cluster(settings), infra, settings.namespace, settings.access)
    there = existing(access, cell, settings.runs, run)
    if there.others or run is not None:
        plain_console(stderr=True).print(there.which)
    return there


def remote_command(words: Sequence[str]) -> list[str]:
    """Return what ssh is to run: the one line that the machine's shell splits into the same words again."""
    return [shlex.join(words)] if len(words) > 1 else list(words)


def login(
    shared: SharedOptions,
    cell: Cell,
    machine: MachineName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Command to run instead of a shell.")
    ] = None,
    run: OfRun = None,
) -> None:
    """Log in to a machine of a cell, or run a command on it.

    A command of one word is a line for the machine's shell; several words reach it as they are.
    """
    there = cell_at(cell, settings_of(shared), run)
    there.instance(machine)
    key = there.file(there.files.key, "the cell's private key")
    argv = ssh_command(there.machine(machine), key)
    os.execvp(argv[0], [*argv[:1], "-t", *argv[1:], *remote_command(command or ())])  # noqa: S606 - replaces this process


def proxy(
    shared: SharedOptions,
    cell: Cell,
    machine: MachineName,
    port: Annotated[int, typer.Argument(metavar="PORT", help="TCP port of the machine.", min=1, max=65535)] = SSH_PORT,
    run: OfRun = None,
) -> None:
    """Connect standard input and output to a port of a machine, for use as an SSH ProxyCommand.

    The connection goes through the infra cluster's API.
    """
    if sys.stdin is None:
        raise BadInput("standard input is closed", hint="ssh opens it for a ProxyCommand; by hand, use a pipe")
    cell_at(cell, settings_of(shared), run).connect(machine, port, INPUT, OUTPUT)


def kubeconfig(shared: SharedOptions, cell: Cell, run: OfRun = None) -> None:
    """Print the path of the guest cluster's kubeconfig.

    With access `portforward`, the kubeconfig works until you press Ctrl-C.
    """
    there = cell_at(cell, settings_of(shared), run)
    with there.guest_api() as path:
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
        if path != there.files.kubeconfig:
            export = (
                f"export KUBECONFIG={path}   # connects through the infra cluster's API until you press Ctrl-C here"
            )
            plain_console(stderr=True).print(export)
            threading.Event().wait()


def kubectl(shared: SharedOptions, call: typer.Context, cell: Cell, run: OfRun = None) -> None:
    """Run kubectl on the guest cluster: `vmatrix kubectl CELL -- get nodes`.

    Options of vmatrix come before kubectl's arguments.
    """
    settings = settings_of(shared)
    there = cell_at(cell, settings, run)
    program = shutil.which("kubectl") or providers.kubectl(settings)
    with there.guest_api() as path:
        environment = {"KUBECONFIG": str(path), "KUBECACHEDIR": str(there.files.kube_cache)}
        status = proc.attend([program, *call.args], env=environment)
    raise typer.Exit(status)


TAIL = 100


def logs(
    shared: SharedOptions,
    cell: Cell,
    machine: Annotated[
        str | None,
        typer.Argument(metavar="MACHINE", help="Only this machine, such as cp-0.", autocompletion=options.machines),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until the cell ends.")] = False,
    tail: Annotated[int, typer.Option(min=0, metavar="N", help="Lines of each source to begin with.")] = TAIL,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help=f"Only this source; can be repeated. Choices: {', '.join(LOG_SOURCES)}.",
            autocompletion=lambda: list(LOG_SOURCES),
        ),
    ] = None,
    run: OfRun = None,
) -> None:
    """Print what a cell's machines write to their consoles and journals, and what the product's phases print.

    Journals and phases are read only on the machine that the cell's run was started on.
    """
    wish = LogWish(machine, _known(source), tail)
    settings = settings_of(shared)
    there = _alive(cell, settings, run)
    if machine is not None:
        there.instance(machine)  # refuses one that does not run
    alone = machine is not None and len(wish.sources) == 1
    notes = plain_console(stderr=True)

    def note(said: str) -> None:
        notes.print(f"not read: {said}")

    lines = Followed(there, wish, note).lines() if follow else last_lines(there, wish, note)
    for line in lines:
        _print(line, alone=alone)
    if follow:
        notes.print(f"cell {cell} has ended")


def _print(line: LogLine, *, alone: bool) -> None:
    sys.stdout.write(f"{line.text}\n" if alone else f"{line.source}: {line.text}\n")
    sys.stdout.flush()


def _known(sources: Sequence[str] | None) -> Sequence[str]:
    for source in sources or ():
        if source not in LOG_SOURCES:
            raise BadInput(unknown("source", source, LOG_SOURCES), hint=f"sources: {', '.join(LOG_SOURCES)}")
    return sources or LOG_SOURCES


def _alive(cell: str, settings: Settings, run: str | None) -> Existing:
    """Return the cell. Raises BadInput when it does not exist, with the logs that its last run has collected."""
    try:
        return cell_at(cell, settings, run)
    except BadInput as error:
        past = [one for one in RunDir.all_in(settings.runs) if run in (None, one.path.name)]
        kept = [files.logs for one in past if (files := one.attempt(cell)).logs.is_dir()]
        if kept:
            newest = max(kept, key=lambda folder: folder.stat().st_mtime)
            raise BadInput(error.summary, hint=f"the logs that its last run here has collected: {newest}") from error
        raise
