"""`vmatrix operator deliver`: one revision of a Delivery, from a pipeline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import BadInput
from harness.files import write_atomically
from harness.operator.deliveries import declared_in
from harness.operator.deliveries import deliver as deliver_revision
from harness.operator.usual import open_usual, usual_namespace

FULL_SHA = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(deliver)


def deliver(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File with one Delivery.")],
    revision: Annotated[str, typer.Option(metavar="SHA", help="The revision, as its full SHA.")],
    dotenv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write DELIVERY_URL and DELIVERY_IMAGE here, for GitLab.")
    ] = None,
    wait_seconds: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="How long it may take.")] = 1800.0,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Cluster that the operator works in; default: as kubectl's.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace if the file has none; default: as kubectl's.")
    ] = None,
) -> None:
    """Declare a Delivery of exactly one revision, and wait until it runs.

    Fails if the revision does not build, or is rolled back.
    """
    if not FULL_SHA.fullmatch(revision):
        raise BadInput(f"--revision {revision} is not a full SHA", hint="$CI_COMMIT_SHA, or `git rev-parse HEAD`")
    body = declared_in(file, revision, namespace or usual_namespace(kubeconfig))
    status = deliver_revision(open_usual(kubeconfig), body, seconds=wait_seconds, show=typer.echo)
    if dotenv is not None:
        write_atomically(dotenv, f"DELIVERY_URL={status.url or ''}\nDELIVERY_IMAGE={status.image or ''}\n".encode())
    typer.echo(f"image  {status.image}\nurl    {status.url or 'none'}")
