"""`vmatrix infra up | down | status`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from harness import wiring
from harness.artifacts import refs
from harness.artifacts.recipe import Progress, silent
from harness.artifacts.store import Store
from harness.cli.artifacts_progress import showing
from harness.errors import EXIT_INFRA, EXIT_NOTHING_SELECTED, EXIT_OK, BadInput
from harness.infra.local.provider import LocalProvider
from harness.infra.local.status import InstanceStatus, State

app = typer.Typer(no_args_is_help=True, help="Bring the infra cluster up, take it down, look at it.")
out = Console(soft_wrap=True, highlight=False)

EXIT_CODES = {State.UP: EXIT_OK, State.BROKEN: EXIT_INFRA, State.DOWN: EXIT_NOTHING_SELECTED}

ProviderName = Annotated[str, typer.Option("--provider", help="local: a control plane and machines on this host.")]
InstanceName = Annotated[str, typer.Option("--name", help="The instance's name; several can run side by side.")]


@app.command()
def up(provider: ProviderName = "local", name: InstanceName = "default") -> None:
    """Bring an infra cluster up; mend what is missing of one that is partly up."""
    began = time.monotonic()
    with showing(out) as progress:
        infra = _provider(provider, name, progress)
        infra.up()
    out.print(f"infra {name} is up at {infra.describe()['server']} after {time.monotonic() - began:.1f} s")
    out.print(f"to look at it: export KUBECONFIG={infra.kubeconfig()}")
    out.print(f"to take it away: {_command('down', name)}")


@app.command()
def down(provider: ProviderName = "local", name: InstanceName = "default") -> None:
    """Take an infra cluster away, and every machine on it."""
    _provider(provider, name).down()
    out.print(f"infra {name} is down, nothing of it is left")


@app.command()
def status(
    provider: ProviderName = "local",
    name: InstanceName = "default",
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Look at an infra cluster: exit code 0 up, 3 broken, 4 down."""
    infra = _provider(provider, name)
    seen = infra.status()
    facts = (
        {} if seen.state is State.DOWN or not seen.programs else {**infra.describe(), "mirror": asdict(infra.mirror())}
    )
    if as_json:
        out.print_json(json.dumps({**facts, "name": name, **asdict(seen)}))
    else:
        show(name, seen, {k: _text(v) for k, v in facts.items()})
    raise typer.Exit(EXIT_CODES[seen.state])


def _provider(provider: str, name: str, progress: Progress = silent) -> LocalProvider:
    if provider != "local":
        raise BadInput(
            f"provider {provider!r} cannot be brought up, taken down or looked at here",
            hint="use --provider local; a cluster of your own is only checked: vmatrix doctor --kubeconfig PATH",
        )
    store = Store()
    images = refs.images(store.catalogue, wiring.INFRA_VERSION)
    return wiring.local_provider(name, store, progress=progress, images=images)


def show(name: str, seen: InstanceStatus, facts: Mapping[str, str]) -> None:
    """Print an instance for a person; `facts` are its addresses and folders."""
    if seen.state is State.DOWN:
        out.print(f"infra {name} is down; to bring it up: {_command('up', name)}")
        return
    out.print(f"infra {name} is {seen.state}")
    for key in ("server", "kubeconfig", "mirror", "directory"):
        if key in facts:
            out.print(f"  {key:12} {facts[key]}")
    if seen.programs:
        out.print(f"  {'disk used':12} {seen.disk_mib} MiB")
        out.print(f"  {'KubeVirt':12} {seen.kubevirt or 'not known'}, CDI {seen.cdi or 'not known'}")
        out.print(_programs(seen))
    if seen.machines:
        out.print(_machines(seen))
    for line in seen.leftovers:
        out.print(f"  left on this host: {line}")
    if seen.state is State.BROKEN:
        mend = f"{_command('up', name)} mends it, " if seen.programs else ""
        out.print(f"{mend}{_command('down', name)} takes it away")


def _text(value: Any) -> str:
    return ", ".join(map(str, value.values())) if isinstance(value, Mapping) else str(value)


def _programs(seen: InstanceStatus) -> Table:
    table = Table("program", "pid", "up", "memory", Column("state", overflow="fold"))
    for program in seen.programs:
        alive = program.pid is not None
        table.add_row(
            program.name,
            str(program.pid) if alive else "-",
            str(timedelta(seconds=program.up_seconds)) if alive else "-",
            f"{program.rss_mib} MiB" if alive else "-",
            program.problem or "ready",
        )
    return table


def _machines(seen: InstanceStatus) -> Table:
    table = Table(Column("namespace", overflow="fold"), "machine", "phase", "address")
    for machine in seen.machines:
        table.add_row(machine.namespace, machine.name, machine.phase, machine.address)
    return table


def _command(verb: str, name: str) -> str:
    return f"vmatrix infra {verb} --name {name}"
