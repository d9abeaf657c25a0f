"""`vmatrix operator`: the group of commands of the operator, and `crds`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.files import write_atomically
from harness.operator.api.crds import files
from harness.paths import packaged_dir

app = typer.Typer(no_args_is_help=True, help="Clusters as declared objects: what the operator needs, does and did.")


@app.command()
def crds(
    write: Annotated[bool, typer.Option("--write", help="Write deploy/operator/crds instead of printing.")] = False,
) -> None:
    """Print the CustomResourceDefinitions of the operator's kinds, for `kubectl apply --server-side -f -`."""
    made = files()
    if not write:
        typer.echo("---\n".join(made.values()), nl=False)
        return
    folder = packaged_dir() / "deploy" / "operator" / "crds"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        write_atomically(folder / name, text)
        typer.echo(folder / name)
