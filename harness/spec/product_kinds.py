"""What each kind of product asks of its phases, on the plain data of product.yml; `crossref` calls it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shutil import which
from typing import Any

from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Finding, below

DEFAULT = "ansible"
GROUPS = ("control_plane", "etcd", "node")
RESERVED = ("all", "ungrouped")  # Ansible's own groups


def check(content: Any, project: Path) -> Iterator[Finding]:
    """Find what is wrong with a product's groups and phases; paths are relative to the project."""
    for at, groups in find(content, "product", "groups"):
        yield from below(at, _groups(groups))
    for at, name in texts(content, "product", "directory"):
        directory = project / name
        if not is_there(directory.is_dir):
            yield at, f"the directory {directory} does not exist"
            return
        kind = next((kind for _, kind in texts(content, "product", "kind")), DEFAULT)
        for where, phase in find(content, "product", "phases", EACH):
            if kind in KINDS and isinstance(phase, Mapping):
                yield from below(where, _ways(phase, directory, kind))


def _groups(groups: Any) -> Iterator[Finding]:
    if not isinstance(groups, Mapping) or not groups:
        return
    for missing in (group for group in GROUPS if group not in groups):
        yield (), f"lacks {missing}, a group of every topology; add `{missing}: NAME`, or `{missing}: []` without one"
    for ours in (group for group in GROUPS if group in groups):
        for at, name in (*texts(groups, ours), *texts(groups, ours, EACH)):
            if name in RESERVED:
                yield at, f"{name} is a group of Ansible's own, which has other machines; use another name"
            elif name in GROUPS and name != ours:
                yield at, f"{name} is the name of another group of topologies, which has other machines"


def _playbook(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    if phase.get("playbook") is None:
        yield ("playbook",), "missing; this key is required"
    playbook = field(phase, "playbook")
    if playbook is not None and not is_there((directory / playbook).is_file):
        yield ("playbook",), f"the playbook {directory / playbook} does not exist; create it, or remove the phase"


def _program(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    if phase.get("command") is None:
        yield ("command",), "missing; this key is required"
    for at, folder in texts(phase, "working_directory"):
        if not is_there((directory / folder).is_dir):
            yield at, f"the directory {directory / folder} does not exist"
    for at, program in islice(texts(phase, "command", EACH), 1):
        why = _not_run(program, directory)
        if at == ("command", 0) and why:
            yield at, why


def _not_run(program: str, directory: Path) -> str:
    """Say why a program cannot be run; "" when it can."""
    if "/" not in program:
        found = which(program) if "\0" not in program else None
        return "" if found else f"no folder of the PATH has the program {program}; install it, or write ./{program}"
    file = directory / program
    if not is_there(file.exists):
        return f"the program {file} does not exist; create it, or remove the phase"
    if not file.is_file():
        return f"the program {file} is not a file"
    return "" if os.access(file, os.X_OK) else f"the program {file} is not executable; run `chmod +x {file}`"


def _ways(phase: Mapping[str, Any], directory: Path, kind: str) -> Iterator[Finding]:
    """Check a phase by the product's kind, or say that it is written for another one."""
    own = KINDS[kind]
    for name, other in KINDS.items():
        if name != kind and phase.get(other.key) is not None:
            both = f"the phase has `{own.key}`, too, as the product's kind asks; remove `{other.key}`"
            wrong = f"is for products of kind `{name}`; write `{own.key}`, or set `kind: {name}` of the product"
            yield (other.key,), both if phase.get(own.key) is not None else wrong
            return
    yield from own.check(phase, directory)


@dataclass(frozen=True)
class Way:
    """What a kind of product asks of a phase: the key that says what is run, and what is wrong with it."""

    key: str
    check: Callable[[Mapping[str, Any], Path], Iterator[Finding]]


KINDS: Mapping[str, Way] = {"ansible": Way("playbook", _playbook), "command": Way("command", _program)}


def is_there(asked: Callable[[], bool]) -> bool:
    """Ask about a path that a person wrote: one that cannot be (too long, a null byte) is not there."""
    try:
        return asked()
    except (OSError, ValueError):
        return False
