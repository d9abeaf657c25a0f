"""`vmatrix config | schema`: settings and where they come from; JSON Schemas for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from harness.cli.options import AsJson
from harness.paths import project_dir
from harness.spec.loader import FILES
from harness.spec.models.images import ImagesFile
from harness.spec.settings import Settings, load_settings

SCHEMAS: dict[str, type[BaseModel]] = {
    **{name.removesuffix(".yml"): model for name, model in FILES.items()},
    "images": ImagesFile,
    "vmatrix": Settings,
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(config)
    app.command()(schema)


def config(as_json: AsJson = False) -> None:
    """Print every setting, its value and where it comes from."""
    sourced = load_settings(Path.cwd())
    values = json.loads(sourced.settings.model_dump_json())
    console = Console(highlight=False)
    if as_json:
        console.print_json(
            json.dumps({name: {"value": value, "from": sourced.origin[name]} for name, value in values.items()})
        )
        return
    table = Table("setting", "value", "from", box=None)
    for name, value in values.items():
        table.add_row(name, "-" if value is None else str(value), sourced.origin[name])
    console.print(table)


def schema(
    directory: Annotated[Path | None, typer.Option(help="Directory to write to; default: docs/schemas.")] = None,
) -> None:
    """Write the JSON Schemas of matrix/*.yml and vmatrix.yml."""
    target = directory if directory is not None else project_dir() / "docs" / "schemas"
    target.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (target / f"{name}.json").write_text(text, encoding="utf-8")
        Console().print(str(target / f"{name}.json"), highlight=False)


def schemas() -> dict[str, str]:
    """Return each file's JSON Schema as text, by the file's name without its ending."""
    return {name: json.dumps(model.model_json_schema(), indent=2) + "\n" for name, model in SCHEMAS.items()}
