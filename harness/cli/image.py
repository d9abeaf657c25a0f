"""`vmatrix image build | list`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from harness import paths
from harness.artifacts import disk
from harness.spec.images import DiskImage

app = typer.Typer(no_args_is_help=True, help="Build and list the disk images that machines are made from.")
out = Console(soft_wrap=True, highlight=False)

Names = Annotated[list[str], typer.Argument(help="Images of matrix/images.yml.", metavar="NAME...")]


@app.command()
def build(names: Names) -> None:
    """Build (or download and verify) disk images into the cache; nothing to do for those that are there."""
    catalogue, cache = _catalogue(), disk.ImageCache()
    for image in [catalogue.find(name) for name in names]:
        made = cache.ensure(image, lambda line: out.print(line, markup=False))
        out.print(f"{made.name}: {cache.path(made)} sha256:{made.sha256}", markup=False)


@app.command("list")
def list_images() -> None:
    """List the catalogue of disk images, and which of them are in the cache."""
    cache = disk.ImageCache()
    table = Table("image", "system", "source", "login", "disk", "end of life", "cached", box=None, padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
    for image in _catalogue().images:
        table.add_row(
            image.name,
            f"{image.os} {image.version}",
            image.source.kind,
            image.user,
            f"{image.size_gib} GiB",
            image.end_of_life.isoformat(),
            _cached(cache, image),
        )
    out.print(table)


def _catalogue() -> disk.Catalogue:
    return disk.load(paths.project_dir() / "matrix" / "images.yml")


def _cached(cache: disk.ImageCache, image: DiskImage) -> str:
    files = cache.kept(image)
    if not files:
        return "no"
    return f"{files[-1].size >> 20} MiB"
