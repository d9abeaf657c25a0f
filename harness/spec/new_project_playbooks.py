"""What a folder of playbooks says of itself: the phases that its files are for, its groups, how Ansible is set up.

A proposal by the usual names, which a person can change: nothing is run, and what cannot be read proposes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.spec.ansible_kind import KUBECONFIG
from harness.spec.playbook_hosts import hosts_of, plays_of
from harness.spec.product_text import mentions
from harness.spec.usual_names import FIRST, FOLDERS, GROUPS, OF_ANSIBLE, PHASES, WHOLE

ETCD, NODES = "etcd", ("control_plane", "node")
EVERYWHERE = "all"
BESIDE = {  # by key of `ansible`: the usual files
    "install": ("requirements.txt",),
    "requirements": ("requirements.yml", "collections/requirements.yml", "roles/requirements.yml"),
    "config": ("ansible.cfg",),
}


@dataclass(frozen=True)
class TeamPlaybooks:
    """What a folder proposes: playbooks by phase, names by group (of all groups, or none), keys of `ansible`.

    others: groups that its plays name and that vmatrix knows no machines for.
    guessed: groups that are among the names only because no play names control planes or nodes as others do.
    hands_out: whether any of its files mentions the path to which an admin's kubeconfig belongs.
    """

    folder: str
    phases: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str | list[str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    ansible: dict[str, Any] = field(default_factory=dict)
    guessed: tuple[str, ...] = ()
    hands_out: bool = True


def look(project: Path, folder: str | None = None) -> TeamPlaybooks:
    """Look at a folder of a project; without one, at the first of the usual folders with a playbook that deploys."""
    proposals = [_look(project, one) for one in ((folder,) if folder is not None else FOLDERS)]
    return next((one for one in proposals if FIRST in one.phases), proposals[0])


def named(project: Path, folder: str, phases: dict[str, str]) -> TeamPlaybooks:
    """Return a folder's proposal with other playbooks than it proposes."""
    there = project / folder
    groups = _groups(there, phases.values())
    hands_out = mentions((KUBECONFIG,), there, None)
    return TeamPlaybooks(folder, phases, groups.names, groups.others, _ansible(there), groups.guessed, hands_out)


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


@dataclass(frozen=True)
class _Groups:
    names: dict[str, str | list[str]]
    others: tuple[str, ...]
    guessed: tuple[str, ...] = ()


def _groups(folder: Path, playbooks: Iterable[str]) -> _Groups:
    """Return the names of our groups, if plays do not do with ours, and the other groups that they name.

    Machines that no play would be about get the groups of which nobody knows what they are.
    """
    hosts = dict.fromkeys(name for playbook in playbooks for name in hosts_of(folder / playbook, set()))
    ours = {group: next((name for name in names if name in hosts), None) for group, names in GROUPS.items()}
    whole = tuple(name for name in WHOLE if name in hosts)
    known = {name for names in GROUPS.values() for name in names} | {*OF_ANSIBLE, *WHOLE}
    others = tuple(name for name in hosts if name not in known)
    reached = bool(whole) or EVERYWHERE in hosts
    guessed = others if not reached and None in (ours[group] for group in NODES) else ()
    strange = bool(whole or guessed) or any(name is not None and name != group for group, name in ours.items())
    if not strange and (ours[ETCD] is not None or reached or not any(ours.values())):
        return _Groups({}, others)
    names = {group: _names(ours[group], () if group == ETCD else whole, group, guessed) for group in ours}
    return _Groups(names, () if guessed else others, guessed)


def _names(own: str | None, whole: tuple[str, ...], group: str, guessed: tuple[str, ...]) -> str | list[str]:
    """Return a group's names in the file: etcd may have none, the others have their own name then."""
    names = [own] if own is not None else list(guessed) if group in NODES else []
    names += whole
    if not names and group in NODES:
        names = [group]
    return names[0] if len(names) == 1 else names


def _ansible(folder: Path) -> dict[str, Any]:
    """Return the keys of `ansible` for what lies beside the playbooks, or in the folder above them."""
    keys: dict[str, Any] = {}
    for key, names in BESIDE.items():
        paths = (f"{above}{name}" for above in ("", "../") for name in names)
        found = next((path for path in paths if (folder / path).is_file()), None)
        if found is not None and (key != "install" or _installs_ansible(folder / found)):
            keys[key] = found
    return keys


def _installs_ansible(file: Path) -> bool:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.strip().lower().startswith("ansible") for line in lines)
