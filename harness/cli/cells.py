"""`vmatrix list | status | reap`: list planned cells and existing cells, delete cells."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape

from harness import providers
from harness.cell import release, teardown
from harness.cell.existing import MachineState, machine_states
from harness.cell.found import CellSelector, Found, find
from harness.cell.labels import is_label_value, own_project
from harness.cli.options import CLUSTER, AsJson, Given, settings_of, takes
from harness.cli.output import folding, wide_console
from harness.cli.warnings import tell_idle
from harness.errors import BadInput
from harness.machines import folders
from harness.paths import project_dir
from harness.plan.goal import nowhere
from harness.plan.lock import not_runnable
from harness.plan.select import Selected
from harness.schedule.durations import Durations
from harness.session.choice import choose, profile_of
from harness.spec import Spec
from harness.spec.origin import origins
from harness.spec.project import Project, timeouts_of

out = wide_console()


def register(app: typer.Typer) -> None:
    """Add the commands."""
    listed = ("tier", "failed", "changed_since", "provider", "infra_profile", "infra_name", "runs")
    app.command(name="list")(takes(*listed)(list_cells))
    app.command()(takes(*CLUSTER)(status))
    app.command()(takes(*CLUSTER)(reap))


def list_cells(
    given: Given,
    cells: Annotated[
        list[str] | None,
        typer.Argument(metavar="CELL", help="Cell ids, globs of ids, AXIS=VALUE or AXIS=class:CLASS; default: all."),
    ] = None,
    as_json: AsJson = False,
    origin: Annotated[
        bool, typer.Option("--origin", help="List the values of the matrix instead, with the file and line of each.")
    ] = False,
) -> None:
    """List planned cells. `vmatrix run` with the same selection runs exactly these."""
    if origin:
        _print_origins(as_json=as_json)
        return
    project = Project.load(settings_of(given))
    spec, settings = project.spec, project.settings
    tell_idle(spec)
    tier, failed, changed = given["tier"], given["failed"], given["changed_since"]
    found = choose(spec, settings, cells or [], tier=tier, failed=failed, changed=changed)
    durations = Durations.load(settings, os.environ)
    rows = [_listed(one, durations.expected(one.cell).seconds) for one in found]
    if as_json:
        out.print(json.dumps(rows, indent=2), markup=False)
        return
    narrowed = bool(cells or failed or changed)
    table = folding("cell", "tiers", "machines", "memory", "minutes", "phases", *(["why"] if narrowed else []))
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
    _print_left_out(spec, profile_of(spec, settings), tier)


def _print_origins(*, as_json: bool) -> None:
    """Print each value of the matrix, and whether the project or the package has it: where exactly."""
    project = project_dir()
    found = [(one, "project" if one.file.is_relative_to(project) else "package") for one in origins(project)]
    if as_json:
        rows = [{"value": o.value, "of": of, "file": str(o.file), "line": o.line or None} for o, of in found]
        out.print(json.dumps(rows, indent=2), markup=False)
        return
    table = folding("value", "of", "file")
    for one, of in found:
        table.add_row(escape(one.value), of, f"{one.file}:{one.line}" if one.line else str(one.file))
    out.print(table)


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


def _print_left_out(spec: Spec, infra: str, tier: str | None) -> None:
    """Print which values and pinned cells cannot run, on an infra profile or with this product, and why."""
    values: dict[tuple[str, str], list[str]] = {}
    for left in nowhere(spec, infra):
        here = f"left out on {infra}" if left.by == "infra" else "left out"
        values.setdefault((here, left.why), []).append(f"{left.axis} {left.value}")
    for (here, why), those in values.items():
        out.print(f"{here}: {', '.join(those)}: {why}", markup=False)
    sentences = (s for name in ([tier] if tier else spec.tiers) for s in not_runnable(spec, name, infra))
    for sentence in dict.fromkeys(sentences):
        out.print(sentence, markup=False)


def status(given: Given, as_json: AsJson = False) -> None:
    """Show existing cells and their machines."""
    settings = settings_of(given)
    cluster = providers.open_cluster(settings)
    found = find(cluster, CellSelector(namespace=settings.namespace))
    if as_json:
        out.print(json.dumps([_state(cell, machine_states(cluster, cell)) for cell in found], indent=2), markup=False)
        return
    if not found:
        out.print("no cells in the infra cluster")
        return
    table = folding("run", "cell", "attempt", "namespace", "expires in", "machine", "status", "address")
    for cell in found:
        left = (cell.expires_at - time.time()) / 60
        expires = f"{left:.0f} min" if left > 0 else "expired"
        for machine in machine_states(cluster, cell) or [MachineState("-", cell.phase or "-", "-")]:
            where = (cell.run, cell.cell, str(cell.attempt), cell.namespace, expires)
            table.add_row(*where, machine.name, machine.status, machine.address)
    out.print(table)


def _state(cell: Found, machines: Sequence[MachineState]) -> dict[str, Any]:
    return {
        "run": cell.run,
        "cell": cell.cell,
        "attempt": cell.attempt,
        "namespace": cell.namespace,
        "expires_at": cell.expires_at,
        "machines": [asdict(machine) for machine in machines],
    }


@dataclass(frozen=True)
class ReapRequest:
    """Which cells to delete."""

    run: Annotated[str | None, typer.Option(help="Delete the cells of this run.", metavar="RUN")] = None
    cell: Annotated[str | None, typer.Option(help="Delete the cells with this id.", metavar="CELL")] = None
    expired: Annotated[bool, typer.Option("--expired", help="Delete expired cells.")] = False
    all: Annotated[bool, typer.Option("--all", help="Delete all cells.")] = False

    def refuse(self) -> None:
        """Check the options against each other.

        Raises:
            BadInput: nothing is selected, or options exclude each other.
        """
        if not (self.run or self.cell or self.expired or self.all):
            raise BadInput("nothing selected: give --run, --cell, --expired or --all", hint="see `vmatrix reap --help`")
        if self.all and (self.run or self.cell or self.expired):
            raise BadInput("--all excludes --run, --cell and --expired", hint="leave out --all to delete some cells")
        for option, value in (("--run", self.run), ("--cell", self.cell)):
            if value is not None and not is_label_value(value):
                raise BadInput(f"{option} {value!r} is not a {option[2:]} id", hint="`vmatrix status` shows both ids")


def reap(
    given: Given,
    request: ReapRequest,
    remove_finalizers: Annotated[
        bool,
        typer.Option(
            "--remove-finalizers",
            help="Remove finalizers from objects that will not delete; their resources may be orphaned.",
        ),
    ] = False,
) -> None:
    """Delete cells, from any machine with a kubeconfig. In a CI job, only cells of the job's project."""
    request.refuse()
    settings = settings_of(given)
    timeouts = timeouts_of(settings)
    cluster = providers.open_cluster(settings, timeouts)
    selection = CellSelector(
        run=request.run,
        cell=request.cell,
        only_expired=request.expired,
        namespace=settings.namespace,
        project=own_project(),
    )
    seconds = timeouts.teardown
    with providers.keeper(settings, timeouts, lambda said: out.print(said, markup=False)):
        if remove_finalizers:
            gone = release.remove_finalizers(
                cluster,
                selection,
                seconds=seconds,
                on_gone=_print_deleted,
                on_released=lambda told: out.print(f"finalizers removed: {told}"),
            )
        else:
            gone = teardown.reap(cluster, selection, seconds=seconds, on_gone=_print_deleted)
    folders.sweep()
    out.print(f"{len(gone)} {'cell' if len(gone) == 1 else 'cells'} deleted" if gone else "no cells to delete")


def _print_deleted(found: Found) -> None:
    out.print(f"deleted: {found.what if found.shared else found.namespace}")
