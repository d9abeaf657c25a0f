"""What a folder of playbooks says of itself: the phases that its files are for, its groups, how Ansible is set up.

A proposal by the usual names, which a person can change: nothing is run, and what cannot be read proposes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.spec.playbook_hosts import hosts_of, plays_of
from harness.spec.usual_names import FIRST, FOLDERS, GROUPS, OF_ANSIBLE, PHASES


@dataclass(frozen=True)
class TeamPlaybooks:
    """What a folder proposes: playbooks by phase, names by group (of all groups, or none), keys of `ansible`.

    others: groups that its plays name and that vmatrix knows no machines for.
    """

    folder: str
    phases: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str | list[str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    ansible: dict[str, Any] = field(default_factory=dict)


def look(project: Path, folder: str | None = None) -> TeamPlaybooks:
    """Look at a folder of a project; without one, at the first of the usual folders with a playbook that deploys."""
    proposals = [_look(project, one) for one in ((folder,) if folder is not None else FOLDERS)]
    return next((one for one in proposals if FIRST in one.phases), proposals[0])


def named(project: Path, folder: str, phases: dict[str, str]) -> TeamPlaybooks:
    """Return a folder's proposal with other playbooks than it proposes."""
    there = project / folder
    groups, others = _groups(there, phases.values())
    return TeamPlaybooks(folder, phases, groups, others, _ansible(there))


def _look(project: Path, folder: str) -> TeamPlaybooks:
    stems = {path.stem.replace("_", "-"): path.name for path in _files(project / folder) if plays_of(path)}
    phases = {
        phase: next(stems[name] for name in names if name in stems)
        for phase, names in PHASES.items()
        if not stems.keys().isdisjoint(names)
    }
    return named(project, folder, phases)


def _files(folder: Path) -> list[Path]:
    return sorted(path for ending in ("yaml", "yml") for path in folder.glob(f"*.{ending}"))


def _groups(folder: Path, playbooks: Any) -> tuple[dict[str, str | list[str]], tuple[str, ...]]:
    """Return the names of our groups if plays have other names than ours, and the other groups that they name."""
    found = dict.fromkeys(name for playbook in playbooks for name in hosts_of(folder / playbook, set()))
    ours = {group: next((name for name in names if name in found), None) for group, names in GROUPS.items()}
    known = {name for names in GROUPS.values() for name in names} | set(OF_ANSIBLE)
    names: dict[str, str | list[str]] = {group: name or [] for group, name in ours.items()}
    strange = any(name is not None and name != group for group, name in ours.items())
    return (names if strange else {}), tuple(name for name in found if name not in known)


def _ansible(folder: Path) -> dict[str, Any]:
    """Return the keys of `ansible` for what lies beside the playbooks, or in the folder above them."""
    keys: dict[str, Any] = {}
    for key, name in (("install", "requirements.txt"), ("requirements", "requirements.yml"), ("config", "ansible.cfg")):
        found = next((path for path in (name, f"../{name}") if (folder / path).is_file()), None)
        if found is not None and (key != "install" or _installs_ansible(folder / found)):
            keys[key] = found
    return keys


def _installs_ansible(file: Path) -> bool:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.strip().lower().startswith("ansible") for line in lines)
