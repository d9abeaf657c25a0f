"""`vmatrix infra up | down | status`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.infra.local.config import LocalConfig
from harness.infra.local.layout import layout_of
from harness.infra.local.provider import LocalProvider

app = typer.Typer(no_args_is_help=True, help="Bring an infra cluster up, take it down, look at it.")
out = Console()


def local_provider(name: str) -> LocalProvider:
    """Return the embedded infrastructure of that name, wired to the artifacts."""
    folder = Path(os.environ["VMATRIX_BINARIES"])
    return LocalProvider(LocalConfig(layout_of(name), lambda b: folder / b, lambda _l, _m: (), lambda _m: None))


@app.command()
def up(
    provider: Annotated[str, typer.Option(help="local")] = "local",
    name: Annotated[str, typer.Option(help="The instance.")] = "default",
) -> None:
    """Bring an infra cluster up; mend what is missing of one that is partly up."""
    it = local_provider(name)
    it.up()
    out.print(f"up: export KUBECONFIG={it.kubeconfig()}")


@app.command()
def down(
    provider: Annotated[str, typer.Option(help="local")] = "local",
    name: Annotated[str, typer.Option(help="The instance.")] = "default",
) -> None:
    """Take an infra cluster away with everything on it."""
    local_provider(name).down()


if __name__ == "__main__":
    app()
