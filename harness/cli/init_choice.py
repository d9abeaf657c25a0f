"""What the options of `vmatrix init` say together, and what they cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import BadInput
from harness.spec import new_project as packaged_examples
from harness.spec.new_project import GITLAB, TeamPlaybooks, look, named
from harness.spec.plays import FIRST
from harness.spec.shape import unknown

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
    found = look(directory, playbooks)
    if not phases:
        return found
    first = {FIRST: found.phases[FIRST]} if FIRST in found.phases else {}
    return named(directory, found.folder, {**first, **phases})


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
            f"--name {name[:LONGEST_NAME]!r} is no name", hint=f"one line of at most {LONGEST_NAME} characters"
        )


def pipeline(given: str | None) -> str:
    """Return the path of vmatrix on a GitLab, "" for no pipeline."""
    if given == "":
        raise BadInput("'' is no path of a GitLab project", hint=f"--gitlab GROUP/PROJECT, or `{NO_PIPELINE}`")
    return GITLAB if given is None else "" if given == NO_PIPELINE else given


def _said(product: str | None, begin: str | None) -> str:
    return f"--from {begin}" if begin is not None else f"--product {product}"
