"""`vmatrix operator execute`: what runs in an executor's pod, for pods and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import BadInput
from harness.operator.execute.program import execute as run_to_its_end


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command()(execute)


def execute(
    folder: Annotated[
        Path,
        typer.Option("--from", metavar="FOLDER", help="Inputs: hosts.yml, extra-vars.yml, operation.json, keys/."),
    ],
    work: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Files of the run. Default: work/ in the inputs' folder.")
    ] = None,
    playbooks: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Playbooks. Default: those that ship with vmatrix, or of product.yml."),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Infra cluster: state, log and progress are kept there."),
    ] = None,
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="Use the service account of the pod that this runs in.")
    ] = False,
    snapshots: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Snapshots of etcd. Default: snapshots/ in the inputs' folder."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Secrets of the bucket. Default: store/ in the inputs' folder."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write how the operation ended to this file, as JSON.")
    ] = None,
) -> None:
    """Run one operation of the operator: its playbook, on its machines. Executors' pods run this."""
    if kubeconfig is not None and in_cluster:
        raise BadInput("--kubeconfig and --in-cluster exclude each other", hint="pass one of them")
    if report is not None and not report.absolute().parent.is_dir():
        raise BadInput(f"--report {report}: there is no folder {report.parent}", hint="create it first")
    work = (work or folder / "work").resolve()
    playbooks = playbooks.resolve() if playbooks is not None else None
    variables = {
        "report": report,
        "kubeconfig": kubeconfig,
        "snapshots": snapshots.resolve() if snapshots else None,
        "store": store.resolve() if store else None,
    }
    raise typer.Exit(run_to_its_end(folder.resolve(), work, playbooks, in_cluster=in_cluster, **variables))
