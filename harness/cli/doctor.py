"""`vmatrix doctor`: what this host or that infra cluster lacks, all at once, before anything is touched."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from harness import proc, providers
from harness.errors import EXIT_BAD_INPUT, EXIT_OK
from harness.infra.cluster.checks import Use
from harness.infra.cluster.need import Need
from harness.infra.findings import Finding, fatal, remedies
from harness.paths import project_dir
from harness.schedule.demand import need_of
from harness.session.choice import choose
from harness.spec import load_spec
from harness.spec.settings import Settings, load_settings

APT = "apt-get"
INSTALL_SECONDS = 900.0
out = Console(soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    provider: Annotated[str, typer.Option(help="local, kind: check this host. kubeconfig: a cluster.")] = "embedded",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The cluster to check; implies --provider kubeconfig.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in the kubeconfig.")] = None,
    namespace: Annotated[str | None, typer.Option(help="The namespace of the cluster that all cells share.")] = None,
    storage_class: Annotated[str | None, typer.Option(help="The storage class of machines' disks.")] = None,
    memory: Annotated[
        int | None, typer.Option(help="Memory in MiB that machines need; for a cluster, the plan's largest cell's.")
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Install missing packages of the OS first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say what is missing, with the command that mends it; exit code 2 when something is."""
    given = {"kubeconfig": kubeconfig, "context": context, "namespace": namespace, "storage_class": storage_class}
    subject, findings = _look(provider, given, memory)
    if install and _install(findings):
        subject, findings = _look(provider, given, memory)
    if as_json:
        out.print_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        _show(subject, findings)
    raise typer.Exit(EXIT_BAD_INPUT if fatal(findings) else EXIT_OK)


def _look(provider: str, given: Mapping[str, Any], memory: int | None) -> tuple[str, list[Finding]]:
    chosen = providers.KUBECONFIG if given["kubeconfig"] is not None else provider
    settings = load_settings(Path.cwd(), options={"provider": chosen, **given}).settings
    return providers.of(settings).check(settings, memory, lambda: _use(settings, memory))


def _use(settings: Settings, memory: int | None) -> Use:
    """Return what a cluster is to be used for: the plan's largest cell on its kind of infra, the guests' networks."""
    spec = load_spec(project_dir() / "matrix")
    need = need_of([selected.cell for selected in choose(spec, settings)])
    asked = need if memory is None else Need(f"a cell of {memory} MiB", memory_mib=memory)
    return providers.use_of(settings, project_dir() / spec.product.directory, asked)


def _install(findings: Sequence[Finding]) -> bool:
    """Install the packages that findings ask for; return whether there were any.

    Raises:
        CommandFailed: apt-get failed.
    """
    commands = [words for words in map(shlex.split, remedies(findings)) if words[0] == APT]
    for words in commands:
        for command in ([APT, "update"], words):
            out.print(f"$ {shlex.join(command)}")
            proc.run(command, timeout=INSTALL_SECONDS, env={"DEBIAN_FRONTEND": "noninteractive"})
    return bool(commands)


def _show(subject: str, findings: Sequence[Finding]) -> None:
    if not findings:
        out.print(f"{subject} has everything")
        return
    columns = (Column(heading, overflow="fold") for heading in ("", "seen", "why it matters"))
    table = Table(*columns, show_lines=True)
    ordered = sorted(findings, key=lambda f: not f.fatal)
    for finding in ordered:
        table.add_row("missing" if finding.fatal else "advice", finding.what, finding.why)
    out.print(table, soft_wrap=False)
    out.print("what mends it:")
    for remedy in remedies(ordered):
        out.print(f"  {remedy}")
    missing = len(fatal(findings))
    things = "1 thing" if missing == 1 else f"{missing} things"
    out.print(f"{subject} lacks {things}" if missing else f"{subject} has everything that is needed")
