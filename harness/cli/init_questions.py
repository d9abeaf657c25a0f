"""What `vmatrix init` asks on a terminal. Nothing is written before the last answer."""

from __future__ import annotations

from pathlib import Path

import typer

from harness.cli.init_choice import NO_PIPELINE, PACKAGED, PLAYBOOKS, beginning, pipeline, starts
from harness.errors import BadInput
from harness.spec.new_project import GITLAB, NewProject, TeamPlaybooks, look, named
from harness.spec.plays import PHASES
from harness.spec.shape import unknown

ABOUT = {
    PLAYBOOKS: "your own playbooks",
    "kubespray": "kubespray, called by an adapter of thin playbooks",
    "operator": "declared objects that vmatrix's operator acts on",
    "script": "a shell script that calls kubeadm",
    PACKAGED: "vmatrix's own playbooks",
}


def asked(directory: Path, name: str, gitlab: str | None) -> NewProject:
    """Ask for everything that makes a project. Raises BadInput or KeyboardInterrupt where the answers end early."""
    try:
        return _asked(directory, name, gitlab)
    except typer.Abort as abort:
        typer.echo("\nnothing was written", err=True)
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise BadInput("the answers ended early", hint="`vmatrix init --help` lists the options") from None


def _asked(directory: Path, name: str, gitlab: str | None) -> NewProject:
    choices = (*starts(), PACKAGED)
    typer.echo("A project can begin with:")
    for choice in choices:
        typer.echo(f"  {choice:<10} {ABOUT.get(choice, 'an example')}")
    start = typer.prompt("Begin with", default=PLAYBOOKS)
    if start not in choices:
        raise BadInput(unknown("beginning", start, choices), hint="nothing was written; begin again")
    begins = _playbooks(directory) if start == PLAYBOOKS else beginning(directory, start, None, {})
    if not isinstance(begins, str):
        name = typer.prompt("Name of the product", default=name)
    where = gitlab or typer.prompt(f"Path of vmatrix on your GitLab ({NO_PIPELINE}: no pipeline)", default=GITLAB)
    return NewProject(directory, name, begins, pipeline(where))


def _playbooks(directory: Path) -> TeamPlaybooks:
    folder = typer.prompt("Folder of your playbooks", default=look(directory).folder)
    found = look(directory, folder)
    for phase, playbook in found.phases.items():
        typer.echo(f"  {phase}: {playbook}")
    if found.phases and typer.confirm("Are these the playbooks of the phases?", default=True):
        return found
    answers = {
        phase: typer.prompt(f"Playbook of phase {phase} (empty: none)", default="", show_default=False).strip()
        for phase in PHASES
    }
    return named(directory, folder, {phase: playbook for phase, playbook in answers.items() if playbook})
