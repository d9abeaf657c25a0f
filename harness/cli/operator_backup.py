"""`vmatrix operator backup list | show | get`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from harness.cli.options import AsJson
from harness.cli.output import show_rows, wide_console
from harness.cli.plain import CommandSet
from harness.operator import backups
from harness.operator.usual import open_usual, usual_namespace

app = CommandSet(no_args_is_help=True, help="Backups of etcd that the operator made: which there are, and copies.")
out = wide_console()
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the EtcdBackup.")]
Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Cluster that the operator works in; default: as kubectl's.")
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the EtcdBackups; default: as kubectl's.")
]
HEADINGS = ("name", "cluster", "phase", "made by", "age", "MiB", "keys", "location")


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.add_typer(app, name="backup")


@app.command("list")
def list_backups(
    cluster: Annotated[str | None, typer.Option(metavar="CLUSTER", help="Only those of this cluster.")] = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """List the EtcdBackups of a namespace, the newest of each cluster first."""
    where = namespace or usual_namespace(kubeconfig)
    found = backups.rows(open_usual(kubeconfig), where, cluster, datetime.now(UTC))
    if as_json:
        out.print_json(json.dumps([one.json() for one in found]))
        return
    if not found:
        out.print(f"there is no EtcdBackup in namespace {where}", markup=False)
        return
    show_rows(out, HEADINGS, [_cells(one) for one in found], whole=("name", "location"))


@app.command()
def show(name: Name, kubeconfig: Kubeconfig = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Show one EtcdBackup: how it is, and what was found out about its snapshot."""
    where = namespace or usual_namespace(kubeconfig)
    found = backups.row_of(backups.backup_named(open_usual(kubeconfig), where, name), datetime.now(UTC)).json()
    if as_json:
        out.print_json(json.dumps(found))
        return
    said = {key.replace("_", " "): value for key, value in found.items() if value not in (None, "")}
    typer.echo(yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=200), nl=False)


@app.command()
def get(
    name: Name,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; default: NAME.db in this folder.")] = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Of the pod that reads the claim; default: the last executor's."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Copy the snapshot of an EtcdBackup to a file, and check that it is the one that was verified.

    A pod of a minute mounts the claim and reads it: you need the right to create and delete pods, and `pods/exec`.
    A bucket is reached from here, with the keys of its Secrets, which you have to be allowed to read.
    """
    where = namespace or usual_namespace(kubeconfig)
    target = to or Path(f"{name}.db")
    size = backups.copy_snapshot(open_usual(kubeconfig), where, name, target, image)
    if as_json:
        out.print_json(json.dumps({"name": name, "file": str(target), "size_bytes": size}))
        return
    typer.echo(f"{target}: {size} bytes, as verified; it contains every secret of the cluster")


def _cells(one: backups.BackupRow) -> tuple[str, ...]:
    size = f"{one.size_bytes / 2**20:.1f}" if one.size_bytes is not None else ""
    keys = str(one.keys) if one.keys is not None else ""
    place = one.location if one.phase == "Verified" or not one.said else one.said
    return (one.name, one.cluster, one.phase, one.origin, backups.age_text(one.age_seconds), size, keys, place)
