"""`vmatrix init`: the files of a new project, by options or by questions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import BadInput
from harness.files import write_new
from harness.paths import MATRIX
from harness.plan.cells import make_cell
from harness.spec import new_project as packaged_examples
from harness.spec.loader import load_spec
from harness.spec.new_project import GITLAB, NewProject, TeamPlaybooks, look, named, refuse_project
from harness.spec.shape import unknown
from harness.spec.usual_names import FIRST, PHASES
from harness.streams import plain_console

LONGEST_NAME = 100
PLAYBOOKS, PACKAGED, NO_PIPELINE = "playbooks", "packaged", "none"
KINDS = {"ansible": PLAYBOOKS, "command": "script", "declared": "operator"}  # what a product of a kind begins with


def starts() -> tuple[str, ...]:
    """Return what --from accepts."""
    return PLAYBOOKS, *packaged_examples.examples()


def start_of(product: str | None, begin: str | None, *, own: bool, packaged: bool) -> str | None:
    """Return what the options say to begin with, None where they say nothing.

    Args:
        own: whether --playbooks or --phase is given.

    Raises:
        BadInput: an unknown word, or options that exclude each other.
    """
    if product is not None and product not in KINDS:
        raise BadInput(unknown("kind of product", product, KINDS), hint="--product KIND")
    if begin is not None and begin not in starts():
        raise BadInput(unknown("beginning", begin, starts()), hint="--from WHAT")
    if packaged and (product or begin or own):
        raise BadInput("--packaged excludes --product, --from, --playbooks and --phase", hint="leave out one of them")
    start = begin or KINDS.get(product or "") or (PLAYBOOKS if own else PACKAGED if packaged else None)
    if own and start != PLAYBOOKS:
        raise BadInput(f"--playbooks and --phase exclude {_said(product, begin)}", hint="leave out one of them")
    kind = "ansible" if start in (PLAYBOOKS, PACKAGED, None) else packaged_examples.kind_of(start)
    if product is not None and product != kind:
        raise BadInput(f"--from {start} makes a product of kind {kind}", hint="leave out --product or --from")
    return start


def beginning(
    directory: Path, start: str, playbooks: str | None, phases: Mapping[str, str]
) -> TeamPlaybooks | str | None:
    """Return what a new project begins with; phases that are given replace all that playbooks propose but `deploy`."""
    if start != PLAYBOOKS:
        return None if start == PACKAGED else start
    playbooks_found = look(directory, playbooks)
    if not phases:
        return playbooks_found
    first = {FIRST: playbooks_found.phases[FIRST]} if FIRST in playbooks_found.phases else {}
    return named(directory, playbooks_found.folder, {**first, **phases})


def phases_of(words: Sequence[str]) -> dict[str, str]:
    """Return the playbooks of --phase, by phase. Raises BadInput."""
    made: dict[str, str] = {}
    for word in words:
        phase, is_pair, playbook = word.partition("=")
        if not (phase and is_pair and playbook):
            raise BadInput(f"--phase {word!r} is not PHASE=PLAYBOOK", hint=f"for example --phase {FIRST}=site.yml")
        made[phase] = playbook
    return made


def refuse_name(name: str | None) -> None:
    """Refuse a product's name that is none: empty, over a line, or nothing that a file in UTF-8 can have."""
    if name is not None and not (name.strip() and name.isprintable() and len(name) <= LONGEST_NAME):
        raise BadInput(
            f"--name {name[:LONGEST_NAME]!r} is not a name", hint=f"one line of at most {LONGEST_NAME} characters"
        )


def pipeline(choice: str | None) -> str:
    """Return the path of vmatrix on a GitLab, "" for no pipeline."""
    if choice == "":
        raise BadInput("'' is not a path of a GitLab project", hint=f"--gitlab GROUP/PROJECT, or `{NO_PIPELINE}`")
    return GITLAB if choice is None else "" if choice == NO_PIPELINE else choice


def _said(product: str | None, begin: str | None) -> str:
    return f"--from {begin}" if begin is not None else f"--product {product}"


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
    candidates = look(directory, folder)
    for phase, playbook in candidates.phases.items():
        typer.echo(f"  {phase}: {playbook}")
    if candidates.phases and typer.confirm("Are these the playbooks of the phases?", default=True):
        return candidates
    answers = {
        phase: typer.prompt(f"Playbook of phase {phase} (empty: none)", default="", show_default=False).strip()
        for phase in PHASES
    }
    return named(directory, folder, {phase: playbook for phase, playbook in answers.items() if playbook})


out = plain_console()


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
    refuse_name(name)
    phases = phases_of(phase or [])
    start = start_of(product, begin, own=bool(playbooks or phases), packaged=packaged)
    title = name or directory.resolve().name
    if start is None:
        if not sys.stdin.isatty():
            raise BadInput("nothing says what to begin with", hint=f"--from {', '.join(starts())}; or --packaged")
        project = asked(directory, title, gitlab)
    else:
        begins = beginning(directory, start, playbooks, phases)
        if name is not None and not isinstance(begins, TeamPlaybooks):
            raise BadInput("--name is for a product of your own playbooks", hint="leave out --name; product.yml has it")
        project = NewProject(directory, title, begins, pipeline(gitlab))
    _write(project)
    there = [] if directory.resolve() == Path.cwd() else [f"cd {directory}"]
    run = [*_smallest(project), f"vmatrix run --tier {project.tier}"]
    out.print("\n  ".join(["go on with:", *there, "vmatrix infra up", *run]))


def _smallest(project: NewProject) -> list[str]:
    """Return what runs the smallest of several pinned cells; say what the product lacks before a cell can run.

    The files are a project all the same.
    """
    try:
        spec = load_spec(project.directory / MATRIX)
    except BadInput as error:
        out.print(f"repair before you run a cell: {error.summary}")
        return []
    cells = [make_cell(spec, values) for values in spec.tiers[project.tier].pinned]
    if len(cells) < 2:
        return []
    first = min(cells, key=lambda cell: (len(cell.machines), len(cell.phases)))
    return [f"vmatrix run {first.id} # the smallest cell"]


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
        out.print(f"written: {file}")
    for name, text in kept.items():
        out.print(f"kept: {project.directory / name}; a new project has in it:")
        out.print(text, end="")
