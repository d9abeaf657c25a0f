"""`vmatrix operator explain | releases`: what the operator would do for a file, and the versions that it knows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import AsJson
from harness.cli.output import folding, wide_console
from harness.errors import BadInput
from harness.files import write_atomically
from harness.operator.api.cluster import CurrentOperation
from harness.operator.decide.due import Wait
from harness.operator.decide.explain import Against, ClusterOutlook
from harness.operator.decide.explain import explain as outlooks
from harness.operator.decide.variables import FILE, as_text, load_releases, of_matrix
from harness.operator.usual import usual_namespace

out = wide_console()


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command()(explain)
    group.command()(releases)


def explain(
    file: Annotated[
        Path,
        typer.Option("--file", "-f", metavar="FILE", help="ClusterDeployments, and Machines; -: standard input."),
    ],
    against: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Compare this ClusterDeployment of the file with what there is."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Cluster that the operator works in; default: as kubectl's.")
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE", help="Namespace of objects that name none; default: as kubectl's."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the operator would do for a ClusterDeployment, and why, without doing it.

    Without --against, nothing is deployed yet; if the file has no Machines, each set has as many as it wants.
    """
    if kubeconfig is not None and against is None:
        raise BadInput("--kubeconfig needs --against CLUSTER", hint="name the cluster to compare the file with")
    source = Path("/dev/stdin") if str(file) == "-" else file
    compared = Against(against, kubeconfig) if against is not None else None
    found = outlooks(source, namespace or usual_namespace(kubeconfig), compared, datetime.now(UTC))
    if as_json:
        out.print_json(json.dumps([one.json() for one in found]))
        return
    for one in found:
        _show(one)


def releases(
    write: Annotated[bool, typer.Option("--write", help="Write the table from matrix/axes.yml instead.")] = False,
) -> None:
    """Print the Kubernetes versions that the operator knows, and the versions of what belongs to each."""
    if write:
        write_atomically(FILE, as_text(of_matrix()))
        out.print(str(FILE), markup=False)
        return
    known = load_releases()
    names = list(dict.fromkeys(name for versions in known.kubernetes.values() for name in versions))
    table = folding("kubernetes", *names)
    for version, versions in known.kubernetes.items():
        table.add_row(version, *(versions.get(name, "") for name in names))
    out.print(table)
    others = folding("component or add-on", "version unless you name another")
    for name, version in known.defaults.items():
        others.add_row(name, version)
    out.print(others)


def _show(one: ClusterOutlook) -> None:
    """Print what is to do for one cluster, with the reasons."""
    wanted = one.desired
    meta = wanted.wish.metadata
    out.print(f"ClusterDeployment {meta.namespace}/{meta.name}: Kubernetes {wanted.spec.version}", markup=False)
    machines = folding("machine", "address", "set", "groups")
    for host in wanted.hosts:
        machines.add_row(host.machine, host.address, host.set_name, " ".join(host.groups))
    out.print("machines, assumed as the sets ask:" if one.assumed else "machines:")
    out.print(machines)
    out.print("to do:" if one.steps else "to do: nothing")
    for number, step in enumerate(one.steps, 1):
        disruptive = ", disruptive" if step.disruptive else ""
        out.print(f"  {number}. {step.operation}{disruptive}: {step.why}", markup=False)
        out.print(f"     machines: {', '.join(step.machines) or 'none yet'}", markup=False)
    out.print(f"now: {_now(one)}", markup=False)


def _now(one: ClusterOutlook) -> str:
    if isinstance(one.verdict, CurrentOperation):
        return f"{one.verdict.operation} begins"
    if isinstance(one.verdict, Wait):
        later = one.verdict.again_seconds
        again = f" (again in {later:.0f} s)" if later is not None else ""
        return f"waits: {one.verdict.reason}: {one.verdict.message}{again}"
    return "nothing begins"
