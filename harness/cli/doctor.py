"""`vmatrix doctor`: everything that this host or an infra cluster lacks, before a run needs it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated

import typer
from rich.table import Column, Table

from harness import proc, providers
from harness.cli.options import AsJson, SharedOptions, settings_of, takes
from harness.errors import EXIT_BAD_INPUT, EXIT_OK
from harness.infra.cluster.capacity import Need
from harness.infra.cluster.checks import Use
from harness.infra.findings import Finding, fatal, remedies
from harness.schedule.placement import need_of
from harness.session.selection import choose
from harness.spec.project import Project
from harness.spec.rules import IPV6, needed
from harness.spec.settings import Settings
from harness.streams import plain_console

CHECKED = ("provider", "infra_name", "kubevirt", "kvm", "kubeconfig", "context", "namespace", "storage_class")
APT = "apt-get"
INSTALL_SECONDS = 900.0  # against hanging: apt-get with a slow mirror; a person watches and can repeat it
out = plain_console()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes(*CHECKED)(doctor))


def doctor(
    shared: SharedOptions,
    memory: Annotated[
        int | None,
        typer.Option(min=1, help="Memory (MiB) that machines need; default for a cluster: the largest cell's."),
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Install missing OS packages first.")] = False,
    pods: Annotated[
        bool, typer.Option("--pods/--no-pods", help="Try the network of a cluster with two pods for half a minute.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check what the provider needs of this host or of its cluster, and print how to fix what is missing.

    The provider is that of the settings, as for `vmatrix run`; with --kubeconfig it is `kubeconfig`. Exits with code 2
    if something is missing.
    """
    settings = settings_of(shared)
    chosen = providers.of(settings)
    use = partial(use_of_plan, settings, memory, pods=pods)
    subject, findings = chosen.check(settings, memory, use)
    if install and _install(findings):
        subject, findings = chosen.check(settings, memory, use)
    findings = [*findings, *providers.image_findings(settings)]
    if as_json:
        out.print_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        show(subject, findings)
    raise typer.Exit(EXIT_BAD_INPUT if fatal(findings) else EXIT_OK)


def use_of_plan(settings: Settings, memory: int | None, *, pods: bool) -> Use:
    """Return what a cluster will be used for: the plan's largest cell on its infra profile, the guests' networks.

    pods: whether its network is to be tried with pods.
    """
    project = Project.load(settings, expired_ok=True)
    cells = [selected.cell for selected in choose(project.spec, settings)]
    need = need_of(cells)
    cell_need = need if memory is None else Need(f"a cell of {memory} MiB", memory_mib=memory)
    trial = providers.trial_of(settings, project.timeouts) if pods else None
    use = providers.use_of(settings, project.product, cell_need, trial)
    return replace(use, ipv6=IPV6 in needed(project.spec, cells))


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


def show(subject: str, findings: Sequence[Finding]) -> None:
    """Print findings, those that are fatal first, and how to fix them."""
    if not findings:
        out.print(f"{subject} has everything")
        return
    columns = (Column(heading, overflow="fold") for heading in ("", "problem", "why it matters"))
    table = Table(*columns, show_lines=True)
    ordered = sorted(findings, key=lambda f: not f.fatal)
    for finding in ordered:
        table.add_row("missing" if finding.fatal else "advice", finding.what, finding.why)
    out.print(table, soft_wrap=False)
    out.print("to fix:")
    for remedy in remedies(ordered):
        out.print(f"  {remedy}")
    missing = len(fatal(findings))
    things = "1 thing" if missing == 1 else f"{missing} things"
    out.print(f"{subject} lacks {things}" if missing else f"{subject} has everything that is needed")
