"""`vmatrix infra up | down | status | describe | env | pin`."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import providers
from harness.artifacts import refs
from harness.artifacts.catalogue import packaged
from harness.artifacts.recipe import ArtifactLimits, Progress, silent
from harness.artifacts.store import Store
from harness.cli.artifacts_progress import showing
from harness.cli.options import AsJson, SharedOptions, settings_of, takes
from harness.cli.output import show_rows
from harness.cli.plain import CommandSet, WordedCommand
from harness.errors import EXIT_INFRA, EXIT_NOTHING_SELECTED, EXIT_OK, BadInput, InfraError, NotUp
from harness.infra.host.instance import DEFAULT_PROVIDER, infra_command, not_up
from harness.infra.host.status import InstanceStatus, ProgramStatus, State
from harness.paths import settings_dir
from harness.providers import Definition, InstanceProvider, Opening
from harness.session import refusals
from harness.spec.project import timeouts_of
from harness.spec.settings import Settings, load_settings
from harness.streams import plain_console

app = CommandSet(no_args_is_help=True, help="Create, inspect and delete infra clusters on this host.")
out = plain_console()

KIND_SETTINGS = ("kubevirt", "releases", "kvm")  # settings that are options of `up`, for provider kind
UP_SETTINGS = (*KIND_SETTINGS, "timeout_scale")
EXIT_CODES = {State.UP: EXIT_OK, State.BROKEN: EXIT_INFRA, State.DOWN: EXIT_NOTHING_SELECTED}

InstanceName = Annotated[
    str | None,
    typer.Option(
        "--infra-name",
        help="Name of the instance; default: the setting infra_name.",
        metavar="NAME",
        envvar="VMATRIX_INFRA_NAME",
    ),
]
FORMER = "--name"  # of that option; accepted and not shown


class InstanceCommand(WordedCommand):
    """A command about an instance."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the option's former name for its present one."""
        present = [f"--infra-name{word.removeprefix(FORMER)}" if _is_former(word) else word for word in args]
        return super().parse_args(ctx, present)


def _is_former(word: str) -> bool:
    return word == FORMER or word.startswith(f"{FORMER}=")


@dataclass(frozen=True)
class UpOptions:
    """What may be chosen of a new instance; a provider has some of these options."""

    kubernetes: Annotated[
        str | None, typer.Option(help="Kubernetes version, for provider kind.", metavar="VERSION")
    ] = None
    node_image: Annotated[
        str | None, typer.Option(help="Node image, for provider kind; default: a published image or our own build.")
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=9,
            help="Nodes beside the first: containers of provider kind; of provider embedded, each Node stands for an "
            "equal share of this host. Default: what the instance has, 0 for a new one.",
        ),
    ] = None
    pods: Annotated[
        bool | None,
        typer.Option("--pods", help="Run ordinary pods as well, on a real kubelet; provider kind always does."),
    ] = None


@app.command(cls=InstanceCommand)
@takes("provider", *UP_SETTINGS)
def up(shared: SharedOptions, options: UpOptions, name: InstanceName = None) -> None:
    """Create an instance, or repair one that is broken."""
    name = _named(name)
    chosen = providers.holder(name, shared["provider"], settings_of({**shared, "provider": None}).provider)
    choices = {**{name: shared[name] for name in KIND_SETTINGS}, **asdict(options)}
    foreign = [option for option, value in choices.items() if value is not None and option not in chosen.choices]
    if foreign:
        words = " and ".join("--" + option.replace("_", "-") for option in foreign)
        having = next((name for name in providers.names() if set(foreign) <= providers.named(name).choices), None)
        hint = f"add --provider {having}" if having else "these options belong to different providers"
        raise BadInput(f"provider {chosen.name} has no option {words}", hint=hint)
    began = time.monotonic()
    instance = Settings().model_copy(update={"infra_name": name, "provider": chosen.name})
    refusals.refuse(refusals.UP, refusals.Wish(instance=instance))
    out.print(f"bringing up infra {name} of provider {chosen.name}: what is missing is obtained, made and started")
    with showing(out) as progress:
        infra = _instance(chosen, name, progress, {**shared, **asdict(options)})
        infra.up()
    out.print(f"infra {name} is up at {infra.describe()['server']} after {time.monotonic() - began:.1f} s")
    out.print(f"to use it: export KUBECONFIG={infra.kubeconfig()}")
    out.print(f"to delete it: {infra_command('down', name, chosen.name)}")


@app.command(cls=InstanceCommand)
@takes("provider")
def down(shared: SharedOptions, name: InstanceName = None) -> None:
    """Delete an instance and all its machines."""
    name = _named(name)
    providers.take_down(_instance(providers.holder(name, shared["provider"]), name))
    out.print(f"infra {name} is down")


@app.command(cls=InstanceCommand)
@takes("provider")
def status(shared: SharedOptions, name: InstanceName = None, as_json: AsJson = False) -> None:
    """Show the state of an instance. Exit codes: 0 up, 3 broken, 4 not up."""
    name = _named(name)
    chosen = providers.holder(name, shared["provider"])
    infra = _instance(chosen, name)
    instance = infra.status()
    facts = {} if instance.state is State.DOWN or not instance.programs else _facts(infra)
    if as_json:
        out.print_json(json.dumps({**facts, "name": name, **asdict(instance)}))
    else:
        show(name, instance, {k: _text(v) for k, v in facts.items()}, chosen.name)
    raise typer.Exit(EXIT_CODES[instance.state])


@app.command(cls=InstanceCommand)
@takes("provider")
def describe(shared: SharedOptions, name: InstanceName = None, as_json: AsJson = False) -> None:
    """Print the addresses, directories and programs of an instance. Exit codes: 0 up, 3 broken, 4 not up."""
    name = _named(name)
    chosen = providers.holder(name, shared["provider"])
    infra = _instance(chosen, name)
    instance = infra.status()
    _refuse_down(instance, name, chosen)
    facts = _facts(infra)
    if as_json:
        out.print_json(json.dumps({**facts, "state": instance.state, "problems": instance.wrong()}))
    else:
        for key, value in {**facts, "state": str(instance.state)}.items():
            out.print(f"{key:14} {_text(value)}")
    _require_up(instance, name, chosen)


@app.command(cls=InstanceCommand)
@takes("provider")
def env(shared: SharedOptions, name: InstanceName = None) -> None:
    """Print variables for a shell, with kubectl on its path: eval "$(vmatrix infra env)".

    MIRROR and REGISTRY are the addresses from which its machines and pods get files and images. GUEST_VARS is JSON:
    the variables that playbooks need because of how its machines are made.
    """
    name = _named(name)
    chosen = providers.holder(name, shared["provider"])
    infra = _instance(chosen, name, guest_vars=settings_of({}).guest_vars)
    _require_up(infra.status(), name, chosen)
    variables = {
        "KUBECONFIG": str(infra.kubeconfig()),
        "MIRROR": infra.mirror().http,
        "REGISTRY": infra.mirror().registry,
    }
    variables["GUEST_VARS"] = json.dumps(dict(infra.guest_vars()))
    for variable, value in variables.items():
        typer.echo(f"export {variable}={shlex.quote(value)}")
    if shutil.which("kubectl") is None:
        folder = providers.kubectl(Settings(infra_name=name)).parent
        typer.echo(f'export PATH="$PATH":{shlex.quote(str(folder))}')


@app.command()
@takes("releases")
def pin(shared: SharedOptions) -> None:
    """Add missing checksums to the file of KubeVirt and CDI releases; commit the result."""
    added = 0
    for checksum, url in providers.pin_releases(settings_of(shared).releases):
        out.print(f"{checksum}  {url}")
        added += 1
    out.print("compare them with those that the projects publish" if added else "no checksums are missing")


def _named(name: str | None) -> str:
    """Return the name of an instance: what is given, or the setting, as commands that run cells take it."""
    return settings_of({}).infra_name if name is None else name


def _refuse_down(instance: InstanceStatus, name: str, provider: Definition) -> None:
    """Raise NotUp for an instance that is down."""
    if instance.state is State.DOWN:
        raise not_up(provider.name, name, NotUp)


def _require_up(instance: InstanceStatus, name: str, provider: Definition) -> None:
    """Raise NotUp for an instance that is down, InfraError for one that is broken."""
    _refuse_down(instance, name, provider)
    if instance.state is not State.UP:
        raise InfraError(
            f"instance {name!r} of provider {provider.name} is {instance.state}",
            detail="\n".join(instance.wrong()),
            hint=f"repair it: {infra_command('up', name, provider.name)}",
        )


def _instance(
    provider: Definition,
    name: str,
    progress: Progress = silent,
    shared: Mapping[str, Any] | None = None,
    *,
    guest_vars: Path | None = None,
) -> InstanceProvider:
    """Return an instance; what it was made as counts, unless `shared` has options of `up`."""
    # What a project adds to the catalogue, perhaps with a mistake, is the business of `up` alone.
    store, choices, timeouts = Store(catalogue=packaged()), dict(shared or {}), None
    provider.has_instance(name)  # refuses a name that no instance can have
    settings = Settings().model_copy(update={"infra_name": name, "guest_vars": guest_vars})
    if shared is not None:
        options = {option: choices.pop(option) for option in UP_SETTINGS}
        settings = load_settings(settings_dir(), options=options).settings.model_copy(update={"infra_name": name})
        timeouts = timeouts_of(settings)
        store = Store(limits=ArtifactLimits.of(timeouts))
    images = refs.images(store.catalogue, providers.KUBERNETES)
    opening = Opening(settings, store=store, images=images, progress=progress, say=out.print, choices=choices)
    return provider.instance(replace(opening, timeouts=timeouts))


def _facts(infra: InstanceProvider) -> dict[str, Any]:
    """Return the facts of an instance, with its mirror.

    If pods have a registry, too: where they push to it (`deliveries`), and where guests pull from it (`pulls`).
    """
    registry = {"deliveries": infra.deliveries(), "pulls": infra.pulls()}
    return {
        **infra.describe(),
        "mirror": asdict(infra.mirror()),
        **{name: address for name, address in registry.items() if address},
    }


def show(name: str, instance: InstanceStatus, facts: Mapping[str, str], provider: str = DEFAULT_PROVIDER) -> None:
    """Print an instance for a person; `facts` are its addresses and folders."""
    if instance.state is State.DOWN:
        out.print(f"infra {name} is down; to create it: {infra_command('up', name, provider)}")
        return
    out.print(f"infra {name} is {instance.state}")
    for key in ("server", "kubeconfig", "mirror", "directory"):
        if key in facts:
            out.print(f"  {key:12} {facts[key]}")
    if instance.programs:
        out.print(f"  {'disk used':12} {instance.disk_mib} MiB")
        out.print(f"  {'KubeVirt':12} {instance.kubevirt or 'unknown'}, CDI {instance.cdi or 'unknown'}")
        out.print(f"  {'pods':12} {f'on node {instance.pods}' if instance.pods else 'off (vmatrix infra up --pods)'}")
        rows = [_program(program) for program in instance.programs]
        show_rows(out, ("program", "pid", "up", "memory", "state"), rows, whole=("program",))
    for line in instance.problems:
        out.print(f"  problem: {line}")
    if instance.machines:
        machines = [(machine.namespace, machine.name, machine.phase, machine.address) for machine in instance.machines]
        show_rows(out, ("namespace", "machine", "phase", "address"), machines, whole=("namespace",))
    for line in instance.leftovers:
        out.print(f"  left on this host: {line}")
    if instance.state is State.BROKEN:
        if instance.programs:
            out.print(f"to repair it: {infra_command('up', name, provider)}")
        out.print(f"to delete it: {infra_command('down', name, provider)}")


def _text(value: Any) -> str:
    """Return a value as a person writes it, and several without those that are empty."""
    if isinstance(value, Mapping):
        value = value.values()
    elif value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    elif isinstance(value, str | int | float | Path):
        return str(value)
    return ", ".join(_text(item) for item in value if item not in (None, "")) or "-"


def _program(program: ProgramStatus) -> tuple[str, ...]:
    if program.pid is None:
        return program.name, "-", "-", "-", program.problem or "ready"
    up = str(timedelta(seconds=program.up_seconds))
    return program.name, str(program.pid), up, f"{program.rss_mib} MiB", program.problem or "ready"
