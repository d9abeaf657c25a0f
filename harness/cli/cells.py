"""`vmatrix list | explain | status | login | reap`: look at cells, planned and alive, and take them away."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from harness import wiring
from harness.cell import teardown
from harness.cell.access import ssh_command
from harness.cell.keys import PRIVATE_KEY
from harness.cell.machines import SSH_PORT, launcher_address
from harness.errors import BadInput
from harness.kube.client import Cluster, Json
from harness.kube.resources import VM, VMI
from harness.model import ANNOTATION_USER, LABEL_MACHINE, Cell, Machine, PlannedMachine
from harness.paths import project_dir
from harness.plan import select
from harness.plan.select import tier_cells
from harness.spec import Spec, load_spec
from harness.spec.settings import Settings, load_settings

Provider = Annotated[str | None, typer.Option(help="local or kubeconfig.")]
InfraName = Annotated[str | None, typer.Option(help="Name of the embedded infrastructure.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the infra cluster.")]
LABEL_VALUE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
WIDE = 250  # columns where there is no terminal: ids are there to be copied, never cut
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="list")(list_cells)
    app.command()(explain)
    app.command()(status)
    app.command()(login)
    app.command()(reap)


def _spec() -> Spec:
    return load_spec(project_dir() / "matrix")


def _settings(provider: str | None, infra_name: str | None, kubeconfig: Path | None) -> Settings:
    options = {"provider": provider, "infra_name": infra_name, "kubeconfig": kubeconfig}
    return load_settings(Path.cwd(), options=options).settings


def list_cells(tier: Annotated[str | None, typer.Option(help="Only this tier.")] = None) -> None:
    """List the cells of each tier."""
    spec = _spec()
    table = Table(box=None)
    for heading in ("tier", "cell", "machines", "memory", "phases"):
        table.add_column(heading, overflow="fold")
    for name in [tier] if tier else list(spec.tiers):
        for cell in tier_cells(spec, name):
            memory = sum(m.memory_mib for m in cell.machines)
            table.add_row(
                name, cell.id, str(len(cell.machines)), f"{memory} MiB", ", ".join(p.name for p in cell.phases)
            )
    out.print(table)


def explain(cell: Annotated[str, typer.Argument(help="Cell id or glob.")]) -> None:
    """Print everything that a cell will be, without a cluster: values, machines, variables, phases, manifests."""
    spec = _spec()
    for found in select(spec, tier=None, patterns=[cell]):
        out.print(yaml.safe_dump(_explained(spec, found), sort_keys=False, width=120), markup=False)


def _explained(spec: Spec, cell: Cell) -> dict[str, Any]:
    product = spec.product
    return {
        "cell": cell.id,
        "tiers": [name for name in spec.tiers if cell.id in {c.id for c in tier_cells(spec, name)}],
        "values": dict(cell.values),
        "machines": [
            {
                "name": m.name,
                "groups": list(m.groups),
                "cpus": m.cpus,
                "memory": f"{m.memory_mib}Mi",
                "disk": f"{m.disk_gib}Gi",
                "image": m.image,
            }
            for m in cell.machines
        ],
        "phases": [
            {
                "phase": p.name,
                "playbook": f"{product.directory}/{product.phases[p.name].playbook}",
                "machines": list(p.machines),
                **({"removes": list(p.removed)} if p.removed else {}),
                **({"values": dict(p.values)} if dict(p.values) != dict(cell.values) else {}),
                "then": p.then,
            }
            for p in cell.phases
        ],
        "variables": dict(cell.vars),
        "manifests": wiring.example_manifests(cell),
    }


def status(provider: Provider = None, infra_name: InfraName = None, kubeconfig: Kubeconfig = None) -> None:
    """Show the cells that exist in the infra cluster and their machines."""
    cluster = wiring.open_cluster(_settings(provider, infra_name, kubeconfig))
    found = teardown.find(cluster, teardown.Selection())
    if not found:
        out.print("no cell exists in the infra cluster")
        return
    table = Table(box=None)
    for heading in ("run", "cell", "attempt", "namespace", "expires in", "machine", "status", "address"):
        table.add_column(heading, overflow="fold")
    for cell in found:
        left = (cell.expires_at - time.time()) / 60
        expires = f"{left:.0f} min" if left > 0 else "expired"
        for name, word, address in _machines(cluster, cell.namespace) or [("-", cell.phase, "-")]:
            table.add_row(cell.run, cell.cell, str(cell.attempt), cell.namespace, expires, name, word, address)
    out.print(table)


def _machines(cluster: Cluster, namespace: str) -> list[tuple[str, str, str]]:
    vmis = {v["metadata"]["name"]: v for v in cluster.list(VMI, namespace).items}
    rows = []
    for vm in cluster.list(VM, namespace).items:
        name = vm["metadata"]["name"]
        word = (vm.get("status") or {}).get("printableStatus", "")
        address = launcher_address(cluster, namespace, vmis[name]) if name in vmis else ""
        rows.append((name, word, address or "-"))
    return rows


def login(
    cell: Annotated[str, typer.Argument(help="Cell id.")],
    machine: Annotated[str, typer.Argument(help="Machine, such as cp-0.")],
    command: Annotated[list[str] | None, typer.Argument(help="Command to run instead of a shell.")] = None,
    provider: Provider = None,
    infra_name: InfraName = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Log in to a machine of a cell that exists."""
    settings = _settings(provider, infra_name, kubeconfig)
    cluster = wiring.open_cluster(settings)
    found = teardown.find(cluster, teardown.Selection(cell=cell))
    if not found:
        raise BadInput(f"no cell {cell!r} exists in the infra cluster", hint="`vmatrix status` shows those that do")
    newest = found[-1]
    vmi = cluster.get(VMI, machine, newest.namespace)
    if vmi is None:
        names = ", ".join(name for name, _, _ in _machines(cluster, newest.namespace)) or "none"
        raise BadInput(f"cell {cell} has no running machine {machine!r}", hint=f"its machines: {names}")
    reached = _reached(cluster, newest.namespace, vmi)
    key = _private_key(settings.runs.resolve() / newest.run / cell, newest.attempt)
    argv = ssh_command(reached, key)
    os.execvp(argv[0], [*argv[:1], "-t", *argv[1:], *(command or [])])  # noqa: S606 - replaces this process


def _reached(cluster: Cluster, namespace: str, vmi: Json) -> Machine:
    name = vmi["metadata"]["name"]
    labels = vmi["metadata"].get("labels") or {}
    planned = PlannedMachine(labels.get(LABEL_MACHINE, name), (), 0, 0, 0, "")
    address = launcher_address(cluster, namespace, vmi)
    if not address:
        raise BadInput(f"machine {name} has no address yet", hint="`vmatrix status` shows its state")
    vm = cluster.get(VM, name, namespace) or {"metadata": {}}
    user = (vm["metadata"].get("annotations") or {}).get(ANNOTATION_USER, "debian")
    return Machine(planned, address, SSH_PORT, user)


def _private_key(directory: Path, attempt: int) -> Path:
    key = (directory / f"attempt-{attempt}" if attempt > 1 else directory) / PRIVATE_KEY
    if not key.is_file():
        raise BadInput(
            f"the cell's private key {key} is not on this machine",
            hint="log in from the machine and the directory that the run was started in, or pass VMATRIX_RUNS",
        )
    return key


def reap(
    run: Annotated[str | None, typer.Option(help="Cells of this run.")] = None,
    cell: Annotated[str | None, typer.Option(help="Cells with this id.")] = None,
    expired: Annotated[bool, typer.Option(help="Cells whose expiry has passed.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Every cell.")] = False,
    provider: Provider = None,
    infra_name: InfraName = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take cells away. Idempotent; works from any machine that has the infra cluster's kubeconfig."""
    if not (run or cell or expired or all_):
        raise BadInput("reap what?", hint="pass --run RUN, --cell CELL, --expired or --all")
    if all_ and (run or cell or expired):
        raise BadInput("--all goes with nothing else", hint="leave --all out to choose by --run, --cell or --expired")
    for option, value in (("--run", run), ("--cell", cell)):
        if value is not None and not LABEL_VALUE.fullmatch(value):
            raise BadInput(f"{option} {value!r} cannot be a {option[2:]}'s id", hint="`vmatrix status` shows both ids")
    settings = _settings(provider, infra_name, kubeconfig)
    seconds = _spec().timeouts.scaled(settings.timeout_scale).teardown
    cluster = wiring.open_cluster(settings)
    selection = teardown.Selection(run=run, cell=cell, only_expired=expired)
    gone = teardown.reap(cluster, selection, seconds=seconds, on_gone=lambda f: out.print(f"gone: {f.namespace}"))
    out.print(f"{len(gone)} cells taken away" if gone else "nothing to take away")
