"""`vmatrix operator log`: what an executor says, while it runs and afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.operator.execute.logs import show_log
from harness.operator.usual import open_usual, usual_namespace


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command()(log)


def log(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the ClusterDeployment.")],
    sequence: Annotated[
        int | None, typer.Argument(metavar="SEQUENCE", help="Number of the operation; default: the newest.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Cluster that the operator works in; default: as kubectl's.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the cluster; default: as kubectl's.")
    ] = None,
) -> None:
    """Print the log of an operation; while its executor runs, follow it to its end."""
    show_log(open_usual(kubeconfig), namespace or usual_namespace(kubeconfig), cluster, sequence, typer.echo)
