"""`vmatrix artifacts newer`: releases that the catalogue lacks, and support that ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console

from harness.artifacts import catalogue as entries
from harness.artifacts import upstream_releases
from harness.artifacts.recipe import ArtifactLimits
from harness.cli.rows import show_rows
from harness.errors import BadInput
from harness.paths import PACKAGED, project_dir, settings_dir
from harness.spec import load_spec
from harness.spec.dates import ending
from harness.spec.project import timeouts_of
from harness.spec.settings import load_settings

out = Console()
SOON = timedelta(days=90)


def newer(
    diff: Annotated[
        bool, typer.Option("--diff", help="Print what adds the Kubernetes releases, for `git apply`, and nothing else.")
    ] = False,
) -> None:
    """Say which newer releases the Go module proxy lists, and which values' support ends within 90 days."""
    limits = ArtifactLimits.of(timeouts_of(load_settings(settings_dir()).settings))
    catalogue = entries.load()
    search = upstream_releases.find_newer(catalogue, limits)
    found = search.found
    if diff:
        _print_diff(found, limits)
        return
    rows = [(one.module, one.version, one.listed) for one in found]
    if rows:
        show_rows(out, ("module", "newer", "the catalogue has"), rows)
    else:
        out.print("nothing is newer")
    for name, said in search.unlisted.items():
        out.print(f"{name}: not known: {said.splitlines()[0]}", highlight=False, markup=False, soft_wrap=True)
    for line in _support(datetime.now(UTC).date()):
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    if any(one.module == entries.KUBERNETES for one in found):
        out.print("`vmatrix artifacts newer --diff` prints what adds these Kubernetes releases", highlight=False)


def _print_diff(found: Sequence[upstream_releases.Newer], limits: ArtifactLimits) -> None:
    if PACKAGED.is_dir():
        raise BadInput("--diff is for a checkout of vmatrix", hint="clone vmatrix, or leave out --diff")
    wanted = [one.version for one in found if one.module == entries.KUBERNETES]
    parts = [upstream_releases.read_parts(version, limits) for version in wanted]
    text = upstream_releases.render_diff(parts, PACKAGED.parents[1])
    out.print(text, end="", markup=False, highlight=False, soft_wrap=True)


def _support(today: date) -> list[str]:
    axes = load_spec(project_dir() / "matrix").axes
    return [
        f"{axis} {value}: support {'ends' if day >= today else 'ended'} on {day}"
        for axis, value, day in ending(axes, today + SOON)
    ]
