"""`vmatrix init`: the files of a new project, by options or by questions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.errors import BadInput
from harness.spec.new_project import FIRST, GUESSES, NewProject, guessed

out = Console(soft_wrap=True, highlight=False)
NEXT = ("vmatrix infra up", "vmatrix run --tier smoke")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(init)


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Folder of the project.")] = Path(),
    playbooks: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder of your playbooks, relative to the project.")
    ] = None,
    phase: Annotated[
        list[str] | None,
        typer.Option(metavar="PHASE=PLAYBOOK", help="Playbook of a phase; can be repeated."),
    ] = None,
    packaged: Annotated[bool, typer.Option("--packaged", help="Test vmatrix's own playbooks.")] = False,
    name: Annotated[str | None, typer.Option(help="Name of the product; default: the project's folder.")] = None,
    gitlab: Annotated[
        str, typer.Option(metavar="PATH", help="Path of vmatrix on your GitLab: write .gitlab-ci.yml, too.")
    ] = "",
) -> None:
    """Create a project. Asks on a terminal for what the options do not say."""
    if packaged and (playbooks or phase):
        raise BadInput("--packaged excludes --playbooks and --phase", hint="leave out one of them")
    phases = _phases(phase or [])
    if playbooks is None and not packaged:
        playbooks, gitlab = _asked(directory, gitlab)
    if playbooks is not None and FIRST not in phases:
        phases |= _deploying(directory / playbooks)
    product = name or directory.resolve().name
    files = NewProject(directory, product, playbooks, phases, gitlab).files()
    for file, text in files.items():
        _write(directory / file, text)
    there = [] if directory.resolve() == Path.cwd() else [f"cd {directory}"]
    out.print("\n  ".join(["go on with:", *there, *NEXT]), markup=False)


def _asked(directory: Path, gitlab: str) -> tuple[str | None, str]:
    """Ask for the playbooks and the pipeline. Raises BadInput where there is no terminal to ask on."""
    if not sys.stdin.isatty():
        raise BadInput("nothing says what to test", hint="give --playbooks FOLDER, or --packaged for vmatrix's own")
    answer = typer.prompt("Folder of your playbooks (empty: vmatrix's own)", default="", show_default=False)
    pipeline = gitlab or typer.prompt("Path of vmatrix on your GitLab (empty: no pipeline)", "", show_default=False)
    return answer or None, pipeline


def _deploying(folder: Path) -> dict[str, str]:
    """Find the playbook that deploys, or ask for it; nothing where neither is possible."""
    found = guessed(folder)
    if sys.stdin.isatty():
        found = typer.prompt("Playbook that deploys a cluster", default=found or GUESSES[0])
    return {FIRST: found} if found else {}


def _phases(words: list[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for word in words:
        phase, is_pair, playbook = word.partition("=")
        if not (phase and is_pair and playbook):
            raise BadInput(f"--phase {word!r} is not PHASE=PLAYBOOK", hint=f"for example --phase {FIRST}=site.yml")
        made[phase] = playbook
    return made


def _write(file: Path, text: str) -> None:
    """Write a file that does not exist; of one that does, say what it needs."""
    if file.exists():
        out.print(f"kept: {file}; add to it:", markup=False)
        out.print(text, markup=False, end="")
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    out.print(f"written: {file}", markup=False)
