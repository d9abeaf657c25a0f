"""`vmatrix explain`: everything that a cell will be and why it is planned, without a cluster."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer
import yaml

from harness.cli import options
from harness.cli.options import AsJson, SharedOptions, settings_of, takes
from harness.cli.output import wide_console
from harness.plan.select import Selected
from harness.report.words import plural
from harness.schedule.durations import Durations
from harness.session.explain import explained
from harness.session.selection import choose, profile_of, refuse_wrong_checks, sizes_of
from harness.spec.project import Project

LONG = 1000  # characters of a line before YAML breaks it: commands are there to be copied
out = wide_console()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes("tier", "infra_profile", "provider", "infra_name")(explain))


def explain(
    shared: SharedOptions,
    cells: Annotated[
        list[str],
        typer.Argument(
            metavar="CELL",
            help="Cell ids, globs of ids, AXIS=VALUE or AXIS=class:CLASS.",
            autocompletion=options.planned,
        ),
    ],
    as_json: AsJson = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print everything of several cells; one cell is always shown whole.")
    ] = False,
) -> None:
    """Print what planned cells will be: why they exist, machines, manifests, inventory, commands, checks."""
    project = Project.load(settings_of(shared), expired_ok=True)
    spec, settings = project.spec, project.settings
    durations = Durations.load(settings, os.environ)
    infra = profile_of(spec, settings)
    sizes = sizes_of(spec, settings)
    chosen = choose(spec, settings, cells, tier=shared["tier"])
    refuse_wrong_checks(project, chosen, shared["tier"])
    if len(chosen) > 1 and not full and not as_json:
        for selected in chosen:
            for line in summary(selected, durations):
                out.print(line)
        out.print(f"{len(chosen)} cells; `--full` prints everything of each")
        return
    explanations = [explained(spec, infra, selected, durations, sizes) for selected in chosen]
    if as_json:
        out.print(json.dumps(explanations, indent=2, default=str))
        return
    for cell in explanations:
        text = yaml.dump(
            cell, Dumper=UnaliasedDumper, sort_keys=False, width=LONG, explicit_start=len(explanations) > 1
        )
        out.print(text)


def summary(selected: Selected, durations: Durations) -> list[str]:
    """Return what a cell is in a few lines."""
    cell = selected.cell
    phases = ", ".join(cell.stage(index) for index in range(len(cell.phases)))
    minutes, machines = durations.expected(cell).seconds / 60, plural(len(cell.machines), "machine")
    return [
        cell.id,
        f"  tiers: {', '.join(selected.tiers)}; {machines}; {minutes:.1f} minutes; phases: {phases}",
        f"  {', '.join(f'{axis} {value}' for axis, value in cell.values.items())}",
    ]


class UnaliasedDumper(yaml.SafeDumper):
    """Writes repeated values out: no reader follows anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
