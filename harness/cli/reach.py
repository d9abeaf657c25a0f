"""`vmatrix login | proxy | kubeconfig | kubectl`: ways into a cell that exists, direct or through the infra's API."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness import proc, providers
from harness.cell import ways
from harness.cell.access import ssh_command
from harness.cell.found import CellSelector, find
from harness.cell.launchers import launcher_address
from harness.cell.machines import SSH_PORT
from harness.cell.place import Place, place_of
from harness.errors import BadInput
from harness.kube.client import Cluster, Json
from harness.kube.forwarder import forwarding
from harness.kube.portforward import bridge, open_tunnel
from harness.kube.resources import VM, VMI
from harness.kube.tunnels import Tunnels, leave
from harness.model import ANNOTATION_USER, LABEL_MACHINE, Machine, PlannedMachine
from harness.rundir import AttemptDir, RunDir
from harness.spec.settings import Settings, load_settings

Cell = Annotated[str, typer.Argument(help="Cell id.")]
Provider = Annotated[str | None, typer.Option(help="local, kind or kubeconfig.")]
InfraName = Annotated[str | None, typer.Option(help="Name of the infrastructure on this host.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the infra cluster.")]
Namespace = Annotated[str | None, typer.Option(help="The namespace that cells share, if they do.")]
Access = Annotated[str | None, typer.Option(help="direct or portforward; as the cell was made without it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(login)
    app.command()(proxy)
    app.command()(kubeconfig)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(kubectl)


@dataclass(frozen=True)
class Existing:
    """The newest attempt at a cell that exists: where its objects lie, and its files, if its run was started here."""

    cluster: Cluster
    settings: Settings
    cell: str
    place: Place
    files: AttemptDir

    def instances(self) -> dict[str, Json]:
        """Return the VirtualMachineInstances of the cell's machines, by the machines' names."""
        found = self.cluster.list(VMI, self.place.namespace, labels=self.place.selector).items
        return {str((v["metadata"].get("labels") or {}).get(LABEL_MACHINE, v["metadata"]["name"])): v for v in found}

    def instance(self, machine: str) -> Json:
        """Return a machine's VirtualMachineInstance.

        Raises:
            BadInput: it has none.
        """
        found = self.instances()
        if machine not in found:
            names = ", ".join(sorted(found)) or "none"
            raise BadInput(f"cell {self.cell} has no running machine {machine!r}", hint=f"its machines: {names}")
        return found[machine]

    def tunnels(self) -> Path | None:
        """Return the file by which machines are reached through the API, brought up to date; None: they are directly.

        What the cell was made with is used again, unless the settings say otherwise.
        """
        recorded = self.files.tunnels
        if (self.settings.access or ("portforward" if recorded.is_file() else "direct")) == "direct":
            return None
        addresses = {v["metadata"]["name"]: self.address(v) for v in self.instances().values()}
        kubeconfig, context = providers.of(self.settings).kubeconfig(self.settings)
        instances = {address: name for name, address in addresses.items() if address}
        log = self.files.tunnels_log
        log.parent.mkdir(parents=True, exist_ok=True)
        Tunnels(kubeconfig.resolve(), context, self.place.namespace, instances, log).save(recorded)
        return recorded

    def address(self, vmi: Json) -> str:
        """Return a machine's address, "" while it has none."""
        return launcher_address(self.cluster, self.place.namespace, vmi)


def existing(cell: str, settings: Settings) -> Existing:
    """Find the newest attempt at a cell.

    Raises:
        BadInput: none exists.
    """
    cluster = providers.open_cluster(settings)
    found = find(cluster, CellSelector(cell=cell, namespace=settings.namespace))
    if not found:
        raise BadInput(f"no cell {cell!r} exists in the infra cluster", hint="`vmatrix status` shows those that do")
    newest = found[-1]
    place = place_of(newest.run, newest.cell, newest.attempt, shared=settings.namespace)
    files = RunDir.of(settings.runs, newest.run).attempt(cell, newest.attempt)
    return Existing(cluster, settings, cell, place, files)


def _settings(
    provider: str | None, infra_name: str | None, kubeconfig: Path | None, namespace: str | None, access: str | None
) -> Settings:
    options = {
        "provider": provider,
        "infra_name": infra_name,
        "kubeconfig": kubeconfig,
        "namespace": namespace,
        "access": access,
    }
    return load_settings(Path.cwd(), options=options).settings


def login(
    cell: Cell,
    machine: Annotated[str, typer.Argument(help="Machine, such as cp-0.")],
    command: Annotated[list[str] | None, typer.Argument(help="Command to run instead of a shell.")] = None,
    provider: Provider = None,
    infra_name: InfraName = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
    access: Access = None,
) -> None:
    """Log in to a machine of a cell that exists."""
    there = existing(cell, _settings(provider, infra_name, kubeconfig, namespace, access))
    vmi = there.instance(machine)
    key = _own(there.files.key, "the cell's private key")
    argv = ssh_command(_reached(there, vmi), key)
    os.execvp(argv[0], [*argv[:1], "-t", *argv[1:], *(command or [])])  # noqa: S606 - replaces this process


def _reached(there: Existing, vmi: Json) -> Machine:
    name, address = vmi["metadata"]["name"], there.address(vmi)
    if not address:
        raise BadInput(f"machine {name} has no address yet", hint="`vmatrix status` shows its state")
    labels = vmi["metadata"].get("labels") or {}
    vm = there.cluster.get(VM, name, there.place.namespace) or {"metadata": {}}
    user = (vm["metadata"].get("annotations") or {}).get(ANNOTATION_USER, "debian")
    planned = PlannedMachine(labels.get(LABEL_MACHINE, name), (), 0, 0, 0, "")
    return Machine(planned, address, SSH_PORT, user, there.tunnels())


def _own(path: Path, what: str) -> Path:
    """Return one of the cell's files.

    Raises:
        BadInput: it is not here.
    """
    if not path.is_file():
        raise BadInput(
            f"{what} {path} is not on this machine",
            hint="use the machine and the directory that the run was started in, or pass VMATRIX_RUNS",
        )
    return path


def proxy(
    cell: Cell,
    machine: Annotated[str, typer.Argument(help="Machine, such as cp-0.")],
    port: Annotated[int, typer.Argument(help="TCP port on it.", min=1, max=65535)] = SSH_PORT,
    provider: Provider = None,
    infra_name: InfraName = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
) -> None:
    """Connect standard input and output to a machine's port through the infra's API, as an SSH ProxyCommand does."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    there = existing(cell, _settings(provider, infra_name, kubeconfig, namespace, None))
    name = there.instance(machine)["metadata"]["name"]
    tunnel = open_tunnel(there.cluster, there.place.namespace, name, port)
    bridge(tunnel, sys.stdin.fileno(), sys.stdout.fileno())


def kubeconfig(
    cell: Cell,
    provider: Provider = None,
    infra_name: InfraName = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
    access: Access = None,
) -> None:
    """Print the path of the guest cluster's kubeconfig; through the infra's API, it works until this is interrupted."""
    there = existing(cell, _settings(provider, infra_name, kubeconfig, namespace, access))
    with _guest_api(there) as path:
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
        if path != there.files.kubeconfig:
            said = f"export KUBECONFIG={path}   # leads through the infra cluster's API until you press Ctrl-C here"
            Console(stderr=True, highlight=False, soft_wrap=True).print(said, markup=False)
            threading.Event().wait()


def kubectl(
    context: typer.Context,
    cell: Cell,
    provider: Provider = None,
    infra_name: InfraName = None,
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[str | None, typer.Option("--infra-namespace", help="That cells share, if they do.")] = None,
    access: Access = None,
) -> None:
    """Run kubectl on the guest cluster: `vmatrix kubectl CELL -- get nodes`."""
    settings = _settings(provider, infra_name, kubeconfig, namespace, access)
    there = existing(cell, settings)
    program = shutil.which("kubectl") or providers.kubectl(settings)
    with _guest_api(there) as path:
        status = proc.attend([program, *context.args], env={"KUBECONFIG": str(path)})
    raise typer.Exit(status)


@contextmanager
def _guest_api(there: Existing) -> Iterator[Path]:
    """Give a kubeconfig of the guest that works as long as the body runs; what is made for it goes at its end."""
    own = _own(there.files.kubeconfig, "the guest's kubeconfig")
    tunnels = there.tunnels()
    if tunnels is None:
        yield own
        return
    with _ending_on_signals(), forwarding(Tunnels.load(tunnels)) as forwarder:
        made = ways.through(own, forwarder.url, there.files.proxied(str(os.getpid())))
        try:
            yield made
        finally:
            made.unlink(missing_ok=True)


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    before: dict[signal.Signals, Callable[..., object] | int | None] = {}
    for number in (signal.SIGHUP, signal.SIGTERM):
        before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
