"""`vmatrix infra up | down | status | describe | pin`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from harness.artifacts import refs
from harness.artifacts.recipe import Progress, silent
from harness.artifacts.store import Store
from harness.cli.artifacts_progress import showing
from harness.errors import EXIT_INFRA, EXIT_NOTHING_SELECTED, EXIT_OK, BadInput
from harness.infra.embedded.provider import LocalProvider
from harness.infra.host.layout import layout_of
from harness.infra.host.status import InstanceStatus, State
from harness.infra.kind import releases
from harness.infra.kind.provider import KindProvider
from harness.providers.embedded import INFRA_VERSION, local_provider
from harness.providers.kind import kind_layout, kind_provider
from harness.spec.settings import load_settings

app = typer.Typer(no_args_is_help=True, help="Bring the infra cluster up, take it down, look at it.")
out = Console(soft_wrap=True, highlight=False)

LOCAL, KIND = "embedded", "kind"
EXIT_CODES = {State.UP: EXIT_OK, State.BROKEN: EXIT_INFRA, State.DOWN: EXIT_NOTHING_SELECTED}

ProviderName = Annotated[
    str | None,
    typer.Option(
        "--provider", help="local: a control plane and machines on this host. kind: a cluster in a container."
    ),
]
InstanceName = Annotated[str, typer.Option("--name", help="The instance's name; several can run side by side.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


@dataclass(frozen=True)
class KindOptions:
    """What may be chosen of a kind cluster; see `up`."""

    kubevirt: str | None = None
    kubernetes: str | None = None
    node_image: str | None = None
    releases: Path | None = None


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
    chosen = _existing(provider, name)
    given = KindOptions(kubevirt, kubernetes, node_image, releases_file)
    if chosen == LOCAL and given != KindOptions():
        raise BadInput("only a kind cluster has a choice of that", hint="add --provider kind")
    began = time.monotonic()
    with showing(out) as progress:
        infra = _provider(chosen, name, progress, given)
        infra.up()
    out.print(f"infra {name} is up at {infra.describe()['server']} after {time.monotonic() - began:.1f} s")
    out.print(f"to look at it: export KUBECONFIG={infra.kubeconfig()}")
    out.print(f"to take it away: {_command('down', name, chosen)}")


@app.command()
def down(provider: ProviderName = None, name: InstanceName = "default") -> None:
    """Take an infra cluster away, and every machine on it."""
    _provider(_existing(provider, name), name).down()
    out.print(f"infra {name} is down, nothing of it is left")


@app.command()
def status(provider: ProviderName = None, name: InstanceName = "default", as_json: AsJson = False) -> None:
    """Look at an infra cluster: exit code 0 up, 3 broken, 4 down."""
    chosen = _existing(provider, name)
    infra = _provider(chosen, name)
    seen = infra.status()
    facts = (
        {} if seen.state is State.DOWN or not seen.programs else {**infra.describe(), "mirror": asdict(infra.mirror())}
    )
    if as_json:
        out.print_json(json.dumps({**facts, "name": name, **asdict(seen)}))
    else:
        show(name, seen, {k: _text(v) for k, v in facts.items()}, chosen)
    raise typer.Exit(EXIT_CODES[seen.state])


@app.command()
def describe(provider: ProviderName = None, name: InstanceName = "default", as_json: AsJson = False) -> None:
    """Say where an infra cluster is: addresses, directories, programs; exit code 3 when it is not up."""
    infra = _provider(_existing(provider, name), name)
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
    target = file if file is not None else releases.default_file()
    count = 0
    for manifest, checksum in releases.pin(target):
        out.print(f"{checksum}  {manifest.url}")
        count += 1
    out.print(f"{count} recorded in {target}: compare them with what the projects publish" if count else "all have one")


def _existing(provider: str | None, name: str) -> str:
    """Return the provider that is asked for, or else the one that has an instance of that name."""
    if provider is None and kind_layout(name).root.exists() and not layout_of(name).root.exists():
        return KIND
    return provider or LOCAL


def _provider(
    provider: str,
    name: str,
    progress: Progress = silent,
    given: KindOptions | None = None,
) -> LocalProvider | KindProvider:
    store = Store()
    images = refs.images(store.catalogue, INFRA_VERSION)
    if provider == LOCAL:
        return local_provider(name, store, progress=progress, images=images)
    if provider != KIND:
        raise BadInput(
            f"provider {provider!r} cannot be brought up, taken down or looked at here",
            hint="use local or kind; a cluster of your own is only checked: vmatrix doctor --kubeconfig PATH",
        )
    chosen = None  # what is there is what it was made as
    if given is not None:
        chosen = load_settings(Path.cwd(), options={"kubevirt": given.kubevirt}).settings.kubevirt
    given = given or KindOptions()
    return kind_provider(
        name,
        store,
        progress=progress,
        say=out.print,
        images=images,
        kubevirt=chosen,
        version=given.kubernetes,
        node_image=given.node_image,
        releases_file=given.releases,
    )


def show(name: str, seen: InstanceStatus, facts: Mapping[str, str], provider: str = LOCAL) -> None:
    """Print an instance for a person; `facts` are its addresses and folders."""
    if seen.state is State.DOWN:
        out.print(f"infra {name} is down; to bring it up: {_command('up', name, provider)}")
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
        mend = f"{_command('up', name, provider)} mends it, " if seen.programs else ""
        out.print(f"{mend}{_command('down', name, provider)} takes it away")


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


def _command(verb: str, name: str, provider: str = LOCAL) -> str:
    which = f" --provider {provider}" if provider != LOCAL else ""
    return f"vmatrix infra {verb}{which} --name {name}"
