"""`vmatrix config | schema | docs`: settings and where they come from; JSON Schemas for editors; pages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from harness.cli.options import AsJson
from harness.cli.output import folding, tell_written
from harness.errors import BadInput
from harness.paths import enclosing_project, named_project, packaged_dir, project_dir, settings_dir
from harness.sanitize import MASK
from harness.spec.project import files_used, write_in_project
from harness.spec.schemas import schemas
from harness.spec.settings import SECRET, load_settings
from harness.spec.shape import unknown
from harness.streams import plain_console


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(config)
    app.command()(schema)
    app.command()(docs)


def config(as_json: AsJson = False) -> None:
    """Print every setting, its value and where it comes from."""
    sourced = load_settings(settings_dir())
    values = json.loads(sourced.settings.model_dump_json())
    values |= {name: MASK for name in SECRET if values[name] is not None}
    console = plain_console(soft_wrap=False)
    if as_json:
        console.print_json(
            json.dumps({name: {"value": value, "from": sourced.origin[name]} for name, value in values.items()})
        )
        return
    table = Table("setting", "value", "from", box=None)
    for name, value in values.items():
        table.add_row(name, "-" if value is None else str(value), sourced.origin[name])
    console.print(table)
    project = named_project() or enclosing_project()
    if project is None:
        console.print(f"\nno project; packaged files: {packaged_dir()}", soft_wrap=True)
        return
    console.print(f"\nproject: {project}\npackaged files: {packaged_dir()}\n", soft_wrap=True)
    files = folding("file", "from")
    for name, used in files_used(project):
        files.add_row(f"matrix/{name}", used)
    console.print(files)


def schema(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Files of matrix/ (without .yml) or vmatrix; default: all."),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Directory to write to; default: docs/schemas in the project.")
    ] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print one schema; write no file.")] = False,
) -> None:
    """Write the JSON Schemas of matrix/*.yml and vmatrix.yml into the project, for editors."""
    made = schemas()
    chosen = list(names or made)
    for name in chosen:
        if name not in made:
            raise BadInput(unknown("schema", name, made), hint="`vmatrix schema` writes all of them")
    if stdout:
        if directory is not None:
            raise BadInput("--stdout writes no file", hint="leave out --stdout or --directory")
        if len(chosen) != 1:
            raise BadInput("--stdout prints one schema", hint="name it: `vmatrix schema axes --stdout`")
        sys.stdout.write(made[chosen[0]])
        return
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    target = directory if directory is not None else project_dir() / "docs" / "schemas"
    written = {name: target / f"{name}.json" for name in chosen}
    for name, file in written.items():
        if directory is None:
            write_in_project(file, made[name])
        else:
            file.write_text(made[name], encoding="utf-8")
    tell_written(written.values())


def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="PAGE", help="A page, such as `product` or docs/product.md; default: list.")
    ] = None,
) -> None:
    """Print a page of the documentation that ships with vmatrix, or list all pages."""
    known = pages()
    if page is None:
        for name, title in known.items():
            typer.echo(f"{name:<{max(map(len, known))}}  {title}")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in known:
        raise BadInput(unknown("page", name, known), hint="`vmatrix docs` lists all pages")
    typer.echo((packaged_dir() / "docs" / f"{name}.md").read_text(encoding="utf-8"), nl=False)


def pages() -> dict[str, str]:
    """Return the title of each page by its name: its path below docs/, without the ending."""
    folder = packaged_dir() / "docs"
    titles = {file: file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for file in folder.rglob("*.md")}
    return {str(file.relative_to(folder).with_suffix("")): title for file, title in sorted(titles.items())}
