"""`vmatrix list | status | reap`: look at cells, planned and alive, and take them away."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from harness import providers
from harness.cell import release, teardown
from harness.cell.found import CellSelector, Found, find
from harness.cell.labels import own_project
from harness.cell.launchers import launcher_address
from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.resources import VM, VMI
from harness.model import LABEL_MACHINE
from harness.paths import project_dir
from harness.plan.goal import needing
from harness.plan.lock import not_runnable
from harness.plan.select import Selected
from harness.schedule.durations import Durations
from harness.session.choice import choose, kind_of
from harness.spec import Spec, load_spec
from harness.spec.settings import Settings, load_settings

Provider = Annotated[str | None, typer.Option(help="local or kubeconfig.")]
InfraName = Annotated[str | None, typer.Option(help="Name of the embedded infrastructure.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the infra cluster.")]
Namespace = Annotated[str | None, typer.Option(help="The namespace that cells share, if they do.")]
LABEL_VALUE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
WIDE = 250  # columns where there is no terminal: ids are there to be copied, never cut
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="list")(list_cells)
    app.command()(status)
    app.command()(reap)


def _spec() -> Spec:
    return load_spec(project_dir() / "matrix")


def _settings(
    provider: str | None, infra_name: str | None, kubeconfig: Path | None, namespace: str | None = None
) -> Settings:
    options = {"provider": provider, "infra_name": infra_name, "kubeconfig": kubeconfig, "namespace": namespace}
    return load_settings(Path.cwd(), options=options).settings


def list_cells(
    cells: Annotated[
        list[str] | None, typer.Argument(help="Ids, globs of ids, AXIS=VALUE, AXIS=class:CLASS; all without any.")
    ] = None,
    tier: Annotated[str | None, typer.Option(help="Only this tier.")] = None,
    infra_profile: Annotated[
        str | None,
        typer.Option(
            "--infra-profile",
            "--infra-kind",
            "--infra",
            help="Infra profile.",
        ),
    ] = None,
    failed: Annotated[str | None, typer.Option(help="Only what did not pass in a run (or the `last`).")] = None,
    changed_since: Annotated[
        str | None, typer.Option(help="Only what files changed since a git revision can affect, and one cell more.")
    ] = None,
    provider: Provider = None,
    runs: Annotated[Path | None, typer.Option(help="Directory of the runs' results.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List cells: exactly those that `vmatrix run` would run with the same words, and why."""
    settings = load_settings(
        Path.cwd(), options={"infra_profile": infra_profile, "provider": provider, "runs": runs}
    ).settings
    spec = _spec()
    found = choose(spec, settings, cells or [], tier=tier, failed=failed, changed=changed_since)
    durations = Durations.load(settings, os.environ)
    rows = [_listed(one, durations.expected(one.cell).seconds) for one in found]
    if as_json:
        out.print(json.dumps(rows, indent=2), markup=False)
        return
    narrowed = bool(cells or failed or changed_since)
    table = Table(box=None)
    for heading in ("cell", "tiers", "machines", "memory", "minutes", "phases", *(["why"] if narrowed else [])):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            row["cell"],
            ", ".join(row["tiers"]),
            str(row["machines"]),
            f"{row['memory_mib']} MiB",
            f"{row['expected_seconds'] / 60:.1f}",
            ", ".join(row["phases"]),
            *([row["why"]] if narrowed else []),
        )
    out.print(table)
    _say_left_out(spec, kind_of(spec, settings), tier)


def _listed(one: Selected, seconds: float) -> dict[str, Any]:
    cell = one.cell
    return {
        "cell": cell.id,
        "tiers": list(one.tiers),
        "why": one.why,
        "values": dict(cell.values),
        "machines": len(cell.machines),
        "memory_mib": sum(m.memory_mib for m in cell.machines),
        "expected_seconds": round(seconds, 1),
        "phases": [cell.stage(index) for index in range(len(cell.phases))],
    }


def _say_left_out(spec: Spec, infra: str, tier: str | None) -> None:
    """Say which values and pinned cells a kind of infra cannot run, and why."""
    values: dict[str, list[str]] = {}
    for left in needing(spec, infra):
        values.setdefault(left.why, []).append(f"{left.axis} {left.value}")
    for why, those in values.items():
        out.print(f"left out on {infra}: {', '.join(those)}: {why}", markup=False)
    said = (sentence for name in ([tier] if tier else spec.tiers) for sentence in not_runnable(spec, name, infra))
    for sentence in dict.fromkeys(said):
        out.print(sentence, markup=False)


def status(
    provider: Provider = None, infra_name: InfraName = None, kubeconfig: Kubeconfig = None, namespace: Namespace = None
) -> None:
    """Show the cells that exist in the infra cluster and their machines."""
    settings = _settings(provider, infra_name, kubeconfig, namespace)
    cluster = providers.open_cluster(settings)
    found = find(cluster, CellSelector(namespace=settings.namespace))
    if not found:
        out.print("no cell exists in the infra cluster")
        return
    table = Table(box=None)
    for heading in ("run", "cell", "attempt", "namespace", "expires in", "machine", "status", "address"):
        table.add_column(heading, overflow="fold")
    for cell in found:
        left = (cell.expires_at - time.time()) / 60
        expires = f"{left:.0f} min" if left > 0 else "expired"
        for name, word, address in _machines(cluster, cell) or [("-", cell.phase or "-", "-")]:
            table.add_row(cell.run, cell.cell, str(cell.attempt), cell.namespace, expires, name, word, address)
    out.print(table)


def _machines(cluster: Cluster, cell: Found) -> list[tuple[str, str, str]]:
    vmis = {v["metadata"]["name"]: v for v in cluster.list(VMI, cell.namespace, labels=cell.selector).items}
    rows = []
    for vm in cluster.list(VM, cell.namespace, labels=cell.selector).items:
        name = vm["metadata"]["name"]
        word = (vm.get("status") or {}).get("printableStatus", "")
        address = launcher_address(cluster, cell.namespace, vmis[name]) if name in vmis else ""
        rows.append(((vm["metadata"].get("labels") or {}).get(LABEL_MACHINE, name), word, address or "-"))
    return rows


def reap(
    run: Annotated[str | None, typer.Option(help="Cells of this run.")] = None,
    cell: Annotated[str | None, typer.Option(help="Cells with this id.")] = None,
    expired: Annotated[bool, typer.Option(help="Cells whose expiry has passed.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Every cell.")] = False,
    remove_finalizers: Annotated[
        bool, typer.Option(help="Off what stays all the same, take the finalizers: what they stand for is left behind.")
    ] = False,
    provider: Provider = None,
    infra_name: InfraName = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
) -> None:
    """Take cells away; in a job of a CI, those of its project. Idempotent; works from any machine with a kubeconfig."""
    if not (run or cell or expired or all_):
        raise BadInput("reap what?", hint="pass --run RUN, --cell CELL, --expired or --all")
    if all_ and (run or cell or expired):
        raise BadInput("--all goes with nothing else", hint="leave --all out to choose by --run, --cell or --expired")
    for option, value in (("--run", run), ("--cell", cell)):
        if value is not None and not LABEL_VALUE.fullmatch(value):
            raise BadInput(f"{option} {value!r} cannot be a {option[2:]}'s id", hint="`vmatrix status` shows both ids")
    settings = _settings(provider, infra_name, kubeconfig, namespace)
    seconds = _spec().timeouts.scaled(settings.timeout_scale).teardown
    cluster = providers.open_cluster(settings)
    selection = CellSelector(
        run=run, cell=cell, only_expired=expired, namespace=settings.namespace, project=own_project()
    )
    if remove_finalizers:
        gone = release.remove_finalizers(
            cluster,
            selection,
            seconds=seconds,
            on_gone=_say_gone,
            on_released=lambda told: out.print(f"released: {told}"),
        )
    else:
        gone = teardown.reap(cluster, selection, seconds=seconds, on_gone=_say_gone)
    out.print(f"{len(gone)} cells taken away" if gone else "nothing to take away")


def _say_gone(found: Found) -> None:
    out.print(f"gone: {found.what if found.shared else found.namespace}")
