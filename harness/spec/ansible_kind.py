"""What a product of kind `ansible` must have, on the plain data of product.yml: files, and plays about its machines."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.paths import packaged_dir
from harness.spec.ansible_configuration import Configuration, configuration
from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Finding
from harness.spec.playbook_files import PlaybookFiles
from harness.spec.plays import Groups, Unclear, patterns
from harness.spec.product_text import made_later, mentions

FILES = ("install", "requirements", "config")
FOLDERS = ("offline",)
PACKAGED = "playbooks"  # the folder of the packaged playbooks
VARS_FOLDERS = ("group_vars", "host_vars")
KUBECONFIG = "cluster_kubeconfig_path"  # the variable that says where the product has to leave one


def playbook(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    """Find a phase without a playbook, or with one that is not there."""
    if phase.get("playbook") is None:
        yield ("playbook",), "missing; this key is required"
    named = field(phase, "playbook")
    if named is not None and not is_there((directory / named).is_file):
        yield ("playbook",), f"the playbook {directory / named} does not exist; create it, or remove the phase"


def options(content: Any, directory: Path) -> Iterator[Finding]:
    """Find files of `ansible` that are not there; `content` is the product's."""
    for key in (*FILES, *FOLDERS):
        for at, name in texts(content, "ansible", key):
            path = directory / name
            if not is_there(path.is_dir if key in FOLDERS else path.is_file):
                yield at, f"the {'folder' if key in FOLDERS else 'file'} {path} does not exist"
    for at, name in texts(content, "ansible", "path"):
        program = (directory / name).expanduser() / "ansible-playbook"
        if not is_there(lambda program=program: program.is_file() and os.access(program, os.X_OK)):  # type: ignore[misc]
            yield at, f"no program {program}; `path` is the folder of ansible-playbook, such as .venv/bin"
    seen: set[str] = set()
    for at, name in texts(content, "ansible", "inventories", EACH):
        path = directory / name
        if not is_there(path.exists):
            yield at, f"the inventory {path} does not exist"
        if path.name in VARS_FOLDERS and path.name in seen:
            yield at, f"a second folder {path.name}; Ansible reads one beside an inventory"
        seen.add(path.name)


def plays(content: Any, directory: Path, topologies: Any, sources: Path | None) -> Iterator[Finding]:
    """Find the first phase whose plays are about none of the machines that it has; a deployment is about all.

    Args:
        content: the product's.  sources: the folder of its sources, if it is there.
    """
    inventories = [name for _, name in texts(content, "ansible", "inventories", EACH)]
    if any(Path(name).name not in VARS_FOLDERS for name in inventories):
        return  # they may have groups of their own
    groups = _groups(content, topologies)
    none = {str(at[-1]) for at, names in find(content, "groups", EACH) if names == []}  # their topologies are left out
    kinds = {frozenset(word for _, word in texts(one, EACH)) for _, one in _group_lists(topologies)}
    kinds = {kind for kind in kinds if not kind <= none}
    for at, name in texts(content, "phases", EACH, "playbook"):
        try:
            found = list(patterns(directory / name, str(sources) if sources is not None else ""))
            reached = frozenset().union(*(groups.within(hosts) for hosts in found))
        except Unclear:
            continue
        left = sorted({", ".join(sorted(kind)) for kind in kinds if not kind & reached})
        said = ", ".join(dict.fromkeys(pattern for hosts in found for pattern in hosts))
        if not found or not left or (reached and at[-2] != "deploy") or _made(said, groups, directory, sources):
            continue
        names = ", ".join(groups.names)
        yield (
            at,
            f"no play of {name} is about machines of {left[0]}: its plays name {said}, the inventory has {names}; "
            "give the product's own names under `groups`",
        )
        return


def files(content: Any, directory: Path, sources: Path | None) -> Iterator[Finding]:
    """Find files, roles and collections that the playbooks of phases name and that are not there: one a phase."""
    if directory.resolve() == (packaged_dir() / PACKAGED).resolve():
        return  # what ships is whole
    own = any(True for key in ("path", "install", "requirements") for _ in find(content, "ansible", key))
    config = next((directory / name for _, name in texts(content, "ansible", "config")), None)

    for at, name in texts(content, "phases", EACH, "playbook"):
        playbook = directory / name

        def ask(playbook: Path = playbook) -> Configuration:
            env = {"ANSIBLE_CONFIG": str((config or playbook.parent / "ansible.cfg").absolute())}
            return configuration(Path(sys.executable).parent, playbook.parent, env, ssh=False)

        search = PlaybookFiles(str(sources) if sources is not None else "", ask, later=own)
        lacking = next(search.missing(playbook), None)
        if lacking is not None:
            yield at, lacking


def kubeconfig(content: Any, directory: Path, sources: Path | None) -> Iterator[Finding]:
    """Find a product that cannot leave a kubeconfig, because nothing in its files says where to."""
    deploys = [at for at, _ in find(content, "phases", "deploy", "playbook")]
    elsewhere = any(True for _ in find(content, "ansible", "requirements"))  # roles that are not here yet
    if deploys and not elsewhere and _has_plays(content, directory) and not mentions((KUBECONFIG,), directory, sources):
        yield (
            deploys[0],
            f"no file of {directory} mentions {KUBECONFIG}, so no cluster could be reached after the deployment; "
            "write the admin kubeconfig to the path in that variable (docs/product.md)",
        )


def _has_plays(content: Any, directory: Path) -> bool:
    try:
        named = texts(content, "phases", "deploy", "playbook")
        return any(True for _, name in named for _ in patterns(directory / name, ""))
    except Unclear:
        return True


def _made(said: str, groups: Groups, directory: Path, sources: Path | None) -> bool:
    missing = [word for word in re.findall(r"[\w.-]+", said) if word not in groups.names]
    return made_later(missing, directory, sources)


def _groups(content: Any, topologies: Any) -> Groups:
    names: dict[str, frozenset[str]] = {}
    ours = {word for _, one in _group_lists(topologies) for _, word in texts(one, EACH)}
    for group in sorted(ours):
        given = [*texts(content, "groups", group), *texts(content, "groups", group, EACH)]
        for name in (group, *(word for _, word in given)):
            names[name] = names.get(name, frozenset()) | {group}
    machines = "|".join(re.escape(word) for _, word in texts(topologies, "topologies", EACH, "machines", EACH, "name"))
    return Groups(names, re.compile(rf"(?:{machines or '(?!)'})-\d+"))


def _group_lists(topologies: Any) -> Iterator[tuple[Any, Any]]:
    return find(topologies, "topologies", EACH, "machines", EACH, "groups")


def is_there(asked: Callable[[], bool]) -> bool:
    """Ask about a path that a person wrote: one that cannot be (too long, a null byte) is not there."""
    try:
        return asked()
    except (OSError, ValueError):
        return False
