"""`vmatrix operator`: the group of commands of the operator, and `crds`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import (
    operator_execute,
    operator_explain,
    operator_image,
    operator_log,
    operator_manifests,
    operator_run,
)
from harness.cli.plain import CommandSet
from harness.files import write_atomically
from harness.operator.api.crds import files, with_tables
from harness.paths import packaged_dir

app = CommandSet(no_args_is_help=True, help="Clusters as declared objects: what the operator needs, does and did.")


@app.command()
def crds(
    write: Annotated[
        bool, typer.Option("--write", help="Write deploy/operator/crds and docs/operator/fields.md instead.")
    ] = False,
) -> None:
    """Print the CustomResourceDefinitions of the operator's kinds, for `kubectl apply --server-side -f -`."""
    made = files()
    if not write:
        typer.echo("---\n".join(made.values()), nl=False)
        return
    folder = packaged_dir() / "deploy" / "operator" / "crds"
    page = packaged_dir() / "docs" / "operator" / "fields.md"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {folder / name: text for name, text in made.items()}
    texts[page] = with_tables(page.read_text(encoding="utf-8"))
    for path, text in texts.items():
        write_atomically(path, text)
        typer.echo(path)


for command in (operator_execute, operator_explain, operator_image, operator_log, operator_manifests, operator_run):
    command.register(app)
