"""What each kind of product asks of its phases, on the plain data of product.yml; `crossref` calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
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
        kind = KINDS.get(next((kind for _, kind in texts(content, "product", "kind")), DEFAULT))
        for where, phase in find(content, "product", "phases", EACH):
            if kind is not None and isinstance(phase, Mapping):
                yield from below(where, kind(phase, directory))


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


KINDS: Mapping[str, Callable[[Mapping[str, Any], Path], Iterator[Finding]]] = {"ansible": _playbook}


def is_there(asked: Callable[[], bool]) -> bool:
    """Ask about a path that a person wrote: one that cannot be (too long, a null byte) is not there."""
    try:
        return asked()
    except (OSError, ValueError):
        return False
