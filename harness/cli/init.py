"""`vmatrix init`: the files of a new project, by options or by questions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.cli import init_choice
from harness.cli.init_choice import NO_PIPELINE
from harness.cli.init_questions import asked
from harness.errors import BadInput
from harness.files import write_new
from harness.paths import MATRIX
from harness.spec.loader import load_spec
from harness.spec.new_project import GITLAB, NewProject, TeamPlaybooks, refuse_project

out = Console(soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(init)


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Folder of the project.")] = Path(),
    product: Annotated[
        str | None, typer.Option(metavar="KIND", help="Kind of the product: `ansible`, `command` or `declared`.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHAT", help="Your `playbooks`, or an example: `kubespray`, `operator` or `script`."
        ),
    ] = None,
    playbooks: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder of your playbooks, relative to the project.")
    ] = None,
    phase: Annotated[
        list[str] | None, typer.Option(metavar="PHASE=PLAYBOOK", help="Playbook of a phase; can be repeated.")
    ] = None,
    packaged: Annotated[bool, typer.Option("--packaged", help="Test vmatrix's own playbooks.")] = False,
    name: Annotated[str | None, typer.Option(help="Name of the product; default: the project's folder.")] = None,
    gitlab: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help=f"Path of vmatrix on your GitLab, or `{NO_PIPELINE}` for no pipeline; default: {GITLAB}.",
        ),
    ] = None,
) -> None:
    """Create a project. Asks on a terminal if no option says what to begin with. Overwrites no file."""
    refuse_project(directory)
    init_choice.refuse_name(name)
    phases = init_choice.phases_of(phase or [])
    start = init_choice.start_of(product, begin, own=bool(playbooks or phases), packaged=packaged)
    title = name or directory.resolve().name
    if start is None:
        if not sys.stdin.isatty():
            raise BadInput(
                "nothing says what to begin with", hint=f"--from {', '.join(init_choice.starts())}; or --packaged"
            )
        project = asked(directory, title, gitlab)
    else:
        begins = init_choice.beginning(directory, start, playbooks, phases)
        if name is not None and not isinstance(begins, TeamPlaybooks):
            raise BadInput("--name is for a product of your own playbooks", hint="leave out --name; product.yml has it")
        project = NewProject(directory, title, begins, init_choice.pipeline(gitlab))
    _write(project)
    _judge(project)
    there = [] if directory.resolve() == Path.cwd() else [f"cd {directory}"]
    out.print(
        "\n  ".join(["go on with:", *there, "vmatrix infra up", f"vmatrix run --tier {project.tier}"]), markup=False
    )


def _judge(project: NewProject) -> None:
    """Say what the product itself lacks before a cell can run; the files are a project all the same."""
    try:
        load_spec(project.directory / MATRIX)
    except BadInput as error:
        out.print(f"repair before you run a cell: {error.summary}", markup=False)


def _write(project: NewProject) -> None:
    """Write the files that do not exist; of one that does, say what it would have."""
    files = project.files()
    kept = {name: text for name, (text, _) in files.items() if (project.directory / name).exists()}
    new = {project.directory / name: content for name, content in files.items() if name not in kept}
    try:
        write_new(new)
    except OSError as error:
        raise BadInput(f"cannot write {error.filename}: {error.strerror}", hint="nothing was written") from error
    for file in new:
        out.print(f"written: {file}", markup=False)
    for name, text in kept.items():
        out.print(f"kept: {project.directory / name}; a new project has in it:", markup=False)
        out.print(text, markup=False, end="")
