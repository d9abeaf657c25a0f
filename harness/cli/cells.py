"""`vmatrix status | reap`: list existing cells, delete cells."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import typer

from harness import providers
from harness.cell import teardown
from harness.cell.existing import CellSelector, ExistingCell, MachineState, find, machine_states
from harness.cell.place import is_label_value, own_project
from harness.cli import options
from harness.cli.options import CLUSTER, AsJson, SharedOptions, settings_of, takes
from harness.cli.output import Countdown, show_rows, wide_console
from harness.errors import BadInput
from harness.machines.reach import ssh
from harness.spec.project import timeouts_of

out = wide_console()


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(takes(*CLUSTER)(status))
    app.command()(takes(*CLUSTER)(reap))


def status(shared: SharedOptions, as_json: AsJson = False) -> None:
    """Show existing cells and their machines."""
    settings = settings_of(shared)
    cluster = providers.open_cluster(settings)
    existing = find(cluster, CellSelector(namespace=settings.namespace))
    if as_json:
        out.print(json.dumps([_state(cell, machine_states(cluster, cell)) for cell in existing], indent=2))
        return
    if not existing:
        out.print("no cells in the infra cluster")
        return
    headings = ("run", "cell", "attempt", "namespace", "expires in", "machine", "status", "address")
    rows: list[tuple[str, ...]] = []
    for cell in existing:
        expires = _expires_in(cell)
        for machine in machine_states(cluster, cell) or [MachineState("-", cell.phase or "-", "-")]:
            where = (cell.run, cell.cell, str(cell.attempt), cell.namespace, expires)
            rows.append((*where, machine.name, machine.status, machine.address))
    show_rows(out, headings, rows, whole=("cell", "namespace"))


def _expires_in(cell: ExistingCell) -> str:
    """Return when a cell expires, for a person; `vmatrix reap --expired` leaves alone what does not say."""
    if cell.expires_at is None:
        return "never"
    left = (cell.expires_at - time.time()) / 60
    return f"{left:.0f} min" if left > 0 else "expired"


def _state(cell: ExistingCell, machines: Sequence[MachineState]) -> dict[str, Any]:
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

    run: Annotated[
        str | None, typer.Option(help="Delete the cells of this run.", metavar="RUN", autocompletion=options.runs)
    ] = None
    cell: Annotated[
        str | None, typer.Option(help="Delete the cells with this id.", metavar="CELL", autocompletion=options.made)
    ] = None
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
    shared: SharedOptions,
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
    settings = settings_of(shared)
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
    with providers.keeper(settings, timeouts, lambda line: out.print(line)):
        if remove_finalizers:
            gone = teardown.remove_finalizers(
                cluster,
                selection,
                seconds=seconds,
                on_gone=_print_deleted,
                on_released=lambda told: out.print(f"finalizers removed: {told}"),
                on_wait=partial(out.print),
            )
        else:
            gone = teardown.reap(
                cluster,
                selection,
                seconds=seconds,
                on_gone=_print_deleted,
                on_left=Countdown(out.print).told,
                on_wait=partial(out.print),
            )
    ssh.sweep()
    out.print(f"{len(gone)} {'cell' if len(gone) == 1 else 'cells'} deleted" if gone else "no cells to delete")


def _print_deleted(cell: ExistingCell) -> None:
    out.print(f"deleted: {cell.what if cell.shared else cell.namespace}")
