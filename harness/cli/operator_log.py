"""`vmatrix operator log`: what an executor says, while it runs and afterwards."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import providers
from harness.cli.options import Given, settings_of, takes
from harness.operator.execute.follow import show_log


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command()(takes("provider", "infra_name", "kubeconfig")(log))


def log(
    given: Given,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the ClusterDeployment.")],
    sequence: Annotated[
        int | None, typer.Argument(metavar="[SEQUENCE]", help="Number of the operation; default: the newest.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the cluster.")] = "default",
) -> None:
    """Print the log of an operation; while its executor runs, follow it to its end."""
    show_log(providers.open_cluster(settings_of(given)), namespace, cluster, sequence, typer.echo)
