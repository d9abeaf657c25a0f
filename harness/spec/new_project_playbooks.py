"""What a folder of playbooks says of itself: the phases that its files are for, its groups, how Ansible is set up.

A proposal by the usual names, which a person can change: nothing is run, and what cannot be read proposes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FIRST = "deploy"  # the phase that no product can lack
FOLDERS = (".", "playbooks", "ansible", "deploy")  # where playbooks usually lie in a repository
PHASES = {  # the usual names of a phase's playbook, without ending and with dashes; the likelier first
    FIRST: ("cluster", "site", "deploy", "install", "create", "main", "setup"),
    "scale-out": ("scale-out", "scale-up", "scale", "add-node", "add-nodes", "join"),
    "scale-in": ("scale-in", "scale-down", "remove-node", "remove-nodes", "delete-node"),
    "remove-node": ("remove-node", "remove-nodes", "delete-node"),
    "upgrade": ("upgrade", "upgrade-cluster", "update"),
    "reconfigure": ("reconfigure",),
    "backup": ("backup", "etcd-backup"),
    "recover": ("recover", "restore", "recover-control-plane"),
    "reset": ("reset", "uninstall", "teardown"),
}
GROUPS = {  # the usual names of our groups; the first of each is our own
    "control_plane": ("control_plane", "kube_control_plane", "control_planes", "controlplane", "masters", "master",
                      "kube-master", "controllers", "servers", "server"),
    "etcd": ("etcd", "etcds", "etcd_nodes"),
    "node": ("node", "kube_node", "nodes", "workers", "worker", "kube-node", "agents", "agent"),
}  # fmt: skip
OF_ANSIBLE = ("all", "ungrouped", "localhost")  # what plays name and no topology needs


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
    stems = {path.stem.replace("_", "-"): path.name for path in _files(project / folder) if _plays(path)}
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
    found = dict.fromkeys(name for playbook in playbooks for name in _hosts(folder / playbook, set()))
    ours = {group: next((name for name in names if name in found), None) for group, names in GROUPS.items()}
    known = {name for names in GROUPS.values() for name in names} | set(OF_ANSIBLE)
    names: dict[str, str | list[str]] = {group: name or [] for group, name in ours.items()}
    strange = any(name is not None and name != group for group, name in ours.items())
    return (names if strange else {}), tuple(name for name in found if name not in known)


def _hosts(playbook: Path, seen: set[Path]) -> Iterator[str]:
    """Yield the groups that the plays of a playbook name, and of those that it imports; templates name nothing."""
    if playbook in seen:
        return
    seen.add(playbook)
    for play in _plays(playbook):
        hosts = play.get("hosts", ())
        for pattern in [hosts] if isinstance(hosts, str) else hosts if isinstance(hosts, list) else ():
            if isinstance(pattern, str) and "{{" not in pattern:
                words = (word.strip().lstrip("!&").partition("[")[0] for word in pattern.replace(",", ":").split(":"))
                yield from (word for word in words if word and word.replace("_", "").replace("-", "").isalnum())
        imported = play.get("import_playbook", play.get("ansible.builtin.import_playbook"))
        if isinstance(imported, str):
            yield from _hosts(playbook.parent / imported, seen)


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


class _Lenient(yaml.SafeLoader):
    """Reads tags such as !vault as nothing: only the names of plays' hosts matter here."""


_Lenient.add_multi_constructor("!", lambda *_: None)


def _plays(file: Path) -> list[dict[str, Any]]:
    """Return the plays of a playbook; nothing where the file is none."""
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _Lenient)  # noqa: S506 - a SafeLoader
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return []
    plays = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return [
        one for one in plays if any(key.rpartition(".")[2] in ("hosts", "import_playbook") for key in map(str, one))
    ]
