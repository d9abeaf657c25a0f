"""`vmatrix image build | list | prune`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from harness import providers
from harness.artifacts import disk
from harness.artifacts.disk.cache import from_mirror
from harness.artifacts.recipe import ArtifactLimits
from harness.cli.options import AsJson
from harness.cli.plain import CommandSet
from harness.paths import MATRIX, settings_dir
from harness.spec.project import anywhere, timeouts_of
from harness.spec.settings import load_settings
from harness.streams import plain_console

app = CommandSet(no_args_is_help=True, help="Build, list and prune disk images of machines.")
out = plain_console()

Names = Annotated[list[str], typer.Argument(help="Images in matrix/images.yml.", metavar="NAME")]


@app.command()
def build(names: Names) -> None:
    """Build or download disk images into the cache; cached images are kept."""
    settings = load_settings(settings_dir()).settings
    mirror = providers.image_mirror(settings)
    catalogue, cache = _catalogue(), disk.ImageCache(limits=ArtifactLimits.of(timeouts_of(settings)))
    for disk_image in [catalogue.find(name) for name in names]:
        image = from_mirror(mirror, disk_image) if mirror else disk_image
        made = cache.ensure(image, lambda line: out.print(line))
        out.print(f"{made.name}: {cache.path(made)} sha256:{made.sha256}")


@app.command("list")
def list_images(as_json: AsJson = False) -> None:
    """List disk images, and which of them are cached."""
    cache = disk.ImageCache()
    if as_json:
        rows = [
            {
                **image.model_dump(mode="json"),
                "cached_bytes": kept[-1].size if (kept := cache.kept(image.name)) else None,
            }
            for image in _catalogue().images
        ]
        out.print(json.dumps(rows, indent=2))
        return
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
            f"{kept[-1].size >> 20} MiB" if (kept := cache.kept(image.name)) else "no",
        )
    out.print(table)


@app.command()
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed; remove nothing.")] = False,
) -> None:
    """Remove old versions, images that are no longer declared, and leftovers of killed builds."""
    gone = disk.prune(disk.ImageCache(), _catalogue().images, dry_run=dry_run)
    for image in gone:
        out.print(f"{image.name}: {', '.join(path.name for path in image.paths)}")
    freed = sum(image.size for image in gone) >> 20
    out.print(f"{freed} MiB {'would be freed' if dry_run else 'freed'}")


def _catalogue() -> disk.ImageCatalogue:
    return disk.load(anywhere() / MATRIX / "images.yml")
