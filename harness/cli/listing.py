"""`vmatrix list`: planned cells, or the values of the matrix with their files."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from harness.cli import options
from harness.cli.options import AsJson, SharedOptions, Verbose, settings_of, takes
from harness.cli.output import folding, show_left_out, show_rows, tell_idle, wide_console
from harness.errors import BadInput
from harness.paths import project_dir
from harness.plan.goal import nowhere
from harness.plan.lock import not_runnable
from harness.plan.select import Selected
from harness.plan.tiers import night_of
from harness.schedule.durations import Durations
from harness.session.selection import choose, profile_of, refuse_wrong_checks, sizes_of
from harness.spec import Spec
from harness.spec.project import Project, origins
from harness.startup import unplugged, unsearched

out = wide_console()


def register(app: typer.Typer) -> None:
    """Add the command."""
    listed = ("tier", "night", "failed", "changed_since", "provider", "infra_profile", "infra_name", "runs")
    app.command(name="list")(takes(*listed)(list_cells))


def list_cells(
    shared: SharedOptions,
    cells: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CELL",
            help="Cell ids, globs of ids, AXIS=VALUE or AXIS=class:CLASS; default: all.",
            autocompletion=options.planned,
        ),
    ] = None,
    as_json: AsJson = False,
    origin: Annotated[
        bool, typer.Option("--origin", help="List the values of the matrix instead, with the file and line of each.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """List planned cells. `vmatrix run` with the same selection runs exactly these."""
    if origin:
        if cells or any(value is not None for value in shared.values()):
            raise BadInput("--origin lists the values of the matrix, not cells", hint="leave out cells and options")
        _print_origins(as_json=as_json)
        return
    with unsearched(), unplugged():  # it holds what it makes until it ends
        _print_cells(shared, cells or [], as_json=as_json, verbose=verbose)


def _print_cells(shared: SharedOptions, cells: list[str], *, as_json: bool, verbose: bool) -> None:
    project = Project.load(settings_of(shared), expired_ok=True)
    spec, settings = project.spec, project.settings
    tell_idle(spec)
    tier, failed, changed = shared["tier"], shared["failed"], shared["changed_since"]
    night = night_of(spec, tier, shared["night"])
    chosen = choose(spec, settings, cells, tier=tier, failed=failed, changed=changed, night=night)
    refuse_wrong_checks(project, chosen, tier)
    durations = Durations.load(settings, os.environ)
    sizes = sizes_of(spec, settings)
    rows = [
        _listed(
            selected, durations.expected(selected.cell).seconds, sizes.expected(selected.cell).memory_mib(selected.cell)
        )
        for selected in chosen
    ]
    if as_json:
        out.print(json.dumps(rows, indent=2))
        return
    narrowed = bool(cells or failed or changed)
    headings = ("cell", "tiers", "machines", "memory", "minutes", "phases", *(["why"] if narrowed else []))
    show_rows(out, headings, [_row(row, why=narrowed) for row in rows])
    show_left_out(out, _left_out(spec, profile_of(spec, settings), tier), "vmatrix list", verbose=verbose)


def _row(row: dict[str, Any], *, why: bool) -> list[str]:
    return [
        row["cell"],
        ", ".join(row["tiers"]),
        str(row["machines"]),
        _memory(row["admitted_mib"], row["memory_mib"]),
        f"{row['expected_seconds'] / 60:.1f}",
        ", ".join(row["phases"]),
        *([row["why"]] if why else []),
    ]


def _memory(admitted: int, declared: int) -> str:
    return f"{declared} MiB" if admitted == declared else f"{admitted} of {declared} MiB"


def _print_origins(*, as_json: bool) -> None:
    """Print each value of the matrix, and whether the project or the package has it: where exactly."""
    project = project_dir()
    marked = [(origin, "project" if origin.file.is_relative_to(project) else "package") for origin in origins(project)]
    if as_json:
        rows = [{"value": o.value, "of": of, "file": str(o.file), "line": o.line or None} for o, of in marked]
        out.print(json.dumps(rows, indent=2))
        return
    table = folding("value", "of", "file")
    for origin, of in marked:
        table.add_row(origin.value, of, f"{origin.file}:{origin.line}" if origin.line else str(origin.file))
    out.print(table)


def _listed(selected: Selected, seconds: float, admitted_mib: int) -> dict[str, Any]:
    cell = selected.cell
    return {
        "cell": cell.id,
        "tiers": list(selected.tiers),
        "why": selected.why,
        "values": dict(cell.values),
        "machines": len(cell.machines),
        "memory_mib": sum(m.memory_mib for m in cell.machines),
        "admitted_mib": admitted_mib,
        "expected_seconds": round(seconds, 1),
        "phases": [cell.stage(index) for index in range(len(cell.phases))],
    }


def _left_out(spec: Spec, infra: str, tier: str | None) -> list[str]:
    """Return which values and pinned cells cannot run, on an infra profile or with this product, and why."""
    values: dict[tuple[str, str], list[str]] = {}
    for left in nowhere(spec, infra):
        here = f"left out on {infra}" if left.by == "infra" else "left out"
        values.setdefault((here, left.why), []).append(f"{left.axis} {left.value}")
    rows = [f"{here}: {', '.join(those)}: {why}" for (here, why), those in values.items()]
    sentences = (s for name in ([tier] if tier else spec.tiers) for s in not_runnable(spec, name, infra))
    return [*rows, *dict.fromkeys(sentences)]
