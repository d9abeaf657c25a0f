"""`vmatrix version`, as `vmatrix --version`."""

from __future__ import annotations

import typer

from harness import __version__


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(version)


def version() -> None:
    """Print the version."""
    typer.echo(__version__)
