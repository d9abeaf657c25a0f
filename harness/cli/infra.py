"""`vmatrix infra up | down | status | describe | pin`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from harness import providers
from harness.artifacts import refs
from harness.artifacts.recipe import Progress, silent
from harness.artifacts.store import Store
from harness.cli.artifacts_progress import showing
from harness.errors import EXIT_INFRA, EXIT_NOTHING_SELECTED, EXIT_OK, BadInput
from harness.infra.host.instance import DEFAULT_PROVIDER, infra_command
from harness.infra.host.status import InstanceStatus, State
from harness.providers import Definition, InstanceProvider, Opening
from harness.spec.settings import Settings, load_settings

app = typer.Typer(no_args_is_help=True, help="Bring the infra cluster up, take it down, look at it.")
out = Console(soft_wrap=True, highlight=False)

EXIT_CODES = {State.UP: EXIT_OK, State.BROKEN: EXIT_INFRA, State.DOWN: EXIT_NOTHING_SELECTED}

ProviderName = Annotated[
    str | None,
    typer.Option(
        "--provider", help="local: a control plane and machines on this host. kind: a cluster in a container."
    ),
]
InstanceName = Annotated[str, typer.Option("--name", help="The instance's name; several can run side by side.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.command()
def up(
    provider: ProviderName = None,
    name: InstanceName = "default",
    kubevirt: Annotated[
        str | None, typer.Option(help="kind only. release: KubeVirt and CDI are installed. embedded: our own part.")
    ] = None,
    kubernetes: Annotated[str | None, typer.Option(help="kind only: the cluster's Kubernetes version.")] = None,
    node_image: Annotated[
        str | None, typer.Option(help="kind only: the node's image; by default a published one, or our own.")
    ] = None,
    releases_file: Annotated[
        Path | None, typer.Option("--releases", help="kind only: names KubeVirt's and CDI's; deploy/kind/releases.yml.")
    ] = None,
) -> None:
    """Bring an infra cluster up; mend what is missing of one that is partly up."""
    chosen = providers.holder(name, provider)
    given = {"kubevirt": kubevirt, "kubernetes": kubernetes, "node_image": node_image, "releases": releases_file}
    foreign = [option for option, value in given.items() if value is not None and option not in chosen.choices]
    if foreign:
        words = " and ".join("--" + option.replace("_", "-") for option in foreign)
        raise BadInput(f"provider {chosen.name} has no option {words}", hint="add --provider kind")
    began = time.monotonic()
    with showing(out) as progress:
        infra = _instance(chosen, name, progress, given)
        infra.up()
    out.print(f"infra {name} is up at {infra.describe()['server']} after {time.monotonic() - began:.1f} s")
    out.print(f"to look at it: export KUBECONFIG={infra.kubeconfig()}")
    out.print(f"to delete it: {infra_command('down', name, chosen.name)}")


@app.command()
def down(provider: ProviderName = None, name: InstanceName = "default") -> None:
    """Take an infra cluster away, and every machine on it."""
    _instance(providers.holder(name, provider), name).down()
    out.print(f"infra {name} is down, nothing of it is left")


@app.command()
def status(provider: ProviderName = None, name: InstanceName = "default", as_json: AsJson = False) -> None:
    """Look at an infra cluster: exit code 0 up, 3 broken, 4 down."""
    chosen = providers.holder(name, provider)
    infra = _instance(chosen, name)
    seen = infra.status()
    facts = (
        {} if seen.state is State.DOWN or not seen.programs else {**infra.describe(), "mirror": asdict(infra.mirror())}
    )
    if as_json:
        out.print_json(json.dumps({**facts, "name": name, **asdict(seen)}))
    else:
        show(name, seen, {k: _text(v) for k, v in facts.items()}, chosen.name)
    raise typer.Exit(EXIT_CODES[seen.state])


@app.command()
def describe(provider: ProviderName = None, name: InstanceName = "default", as_json: AsJson = False) -> None:
    """Say where an infra cluster is: addresses, directories, programs; exit code 3 when it is not up."""
    infra = _instance(providers.holder(name, provider), name)
    facts = {**infra.describe(), "mirror": asdict(infra.mirror())}
    if as_json:
        out.print_json(json.dumps(facts))
        return
    for key, value in facts.items():
        out.print(f"{key:14} {_text(value)}")


@app.command()
def pin(
    file: Annotated[Path | None, typer.Option(help="Which; deploy/kind/releases.yml without it.")] = None,
) -> None:
    """Record the checksum of every manifest of KubeVirt's and CDI's releases that has none yet; to be committed."""
    recorded = False
    for checksum, url in providers.pin_releases(file):
        out.print(f"{checksum}  {url}")
        recorded = True
    out.print("compare them with what the projects publish, then commit the file" if recorded else "all have one")


def _instance(
    provider: Definition, name: str, progress: Progress = silent, given: Mapping[str, Any] | None = None
) -> InstanceProvider:
    """Return an instance; what it was made as counts, unless `given` has options of `up`."""
    store, choices = Store(), dict(given or {})
    settings = Settings(infra_name=name)
    if given is not None:
        settings = load_settings(Path.cwd(), options={"kubevirt": choices.pop("kubevirt")}).settings
        settings = settings.model_copy(update={"infra_name": name})
    images = refs.images(store.catalogue, providers.KUBERNETES)
    opening = Opening(settings, store=store, images=images, progress=progress, say=out.print, choices=choices)
    return provider.instance(opening)


def show(name: str, seen: InstanceStatus, facts: Mapping[str, str], provider: str = DEFAULT_PROVIDER) -> None:
    """Print an instance for a person; `facts` are its addresses and folders."""
    if seen.state is State.DOWN:
        out.print(f"infra {name} is down; to bring it up: {infra_command('up', name, provider)}")
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
        mend = f"{infra_command('up', name, provider)} mends it, " if seen.programs else ""
        out.print(f"{mend}{infra_command('down', name, provider)} takes it away")


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
