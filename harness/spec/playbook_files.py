"""Files of Ansible that a product names: ansible.cfg as Ansible reads it, and what its playbooks need and lack.

Ansible fills in $VARIABLES, ~ and {{CWD}} in ansible.cfg, knows what a path is relative to and which keys an old
file may have, and takes environment variables before the file: nobody else reads such a file right.
https://docs.ansible.com/ansible/latest/cli/ansible-config.html

A submodule that is not checked out, and a file without plays, are found on machines otherwise. Playbooks are read,
not run: names with templates, roles that a requirements file brings, and includes under a condition are not judged.
https://docs.ansible.com/ansible/latest/playbook_guide/playbooks_reuse.html
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.files import read_text
from harness.proc import run
from harness.spec.plays import DEEPEST, Unclear, no_plays, plain, read_plays
from harness.yaml_text import malformed

CALLBACKS, COLLECTIONS, ROLES = "DEFAULT_CALLBACK_PLUGIN_PATH", "COLLECTIONS_PATHS", "DEFAULT_ROLES_PATH"
SSH_SECTION = b"ssh_connection"  # of ansible.cfg
CONFIG_SECONDS = 60.0  # against hanging: Ansible starts slowly on a busy host


@dataclass(frozen=True)
class Configuration:
    """Settings by Ansible's names for them, and those of the connection `ssh`, where any of these is set."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    ssh: Mapping[str, Any] = field(default_factory=dict)

    def listed(self, setting: str) -> list[str]:
        """Return the folders of a list, filled in."""
        return [str(folder) for folder in self.settings.get(setting) or []]


def configuration(programs: Path, folder: Path, env: Mapping[str, str], *, ssh: bool = True) -> Configuration:
    """Ask Ansible for its settings; nothing where it cannot say them: then it says itself what is wrong with a file.

    Args:
        programs: the folder of ansible-config; one that lacks it, or has an old one, is helped out by ours.
        folder: the working directory.  env: the environment variables of the run.
        ssh: whether settings of the connection are asked for, too; those that nobody sets are left out.
    """
    settings = _by_name(_dumped(programs, folder, env))
    asked = ssh and _sets_ssh(settings.get("CONFIG_FILE"), {**os.environ, **env})
    plugins = _dumped(programs, folder, env, "-t", "connection", "ssh") if asked else []
    connection: list[dict[str, Any]] = next((entry["ssh"] for entry in plugins if "ssh" in entry), [])
    return Configuration(settings, _by_name(connection))


def _sets_ssh(config: str | None, env: Mapping[str, str]) -> bool:
    """Tell whether an option of the connection `ssh` may be set; where none is, Ansible need not start to say so."""
    if any(name.startswith("ANSIBLE_SSH_") for name in env):
        return True
    return config is not None and SSH_SECTION in Path(config).read_bytes()


def _dumped(programs: Path, folder: Path, env: Mapping[str, str], *words: str) -> list[dict[str, Any]]:
    for place in dict.fromkeys((programs, Path(sys.executable).parent)):
        program = (place / "ansible-config").absolute()
        if not program.exists():
            continue
        argv = (str(program), "dump", *words, "--format", "json")
        done = run(argv, timeout=CONFIG_SECONDS, check=False, cwd=folder, env=env)
        if done.returncode == 0:
            dumped: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("[") :])
            return dumped
    return []


def _by_name(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in entries if "name" in entry}


FQCN = re.compile(r"[a-z_]\w*\.[a-z_]\w*\.[\w.-]+")
TASKS = ("pre_tasks", "tasks", "post_tasks", "handlers")
DEPENDENCIES = "dependencies"
BLOCKS = ("block", "rescue", "always")
ENDINGS = ("", ".yml", ".yaml", ".json")
SUBMODULE = "is a submodule checked out (`git submodule update --init --recursive`)?"
VAULT = "$ANSIBLE_VAULT;"
PREFIXES = ("ansible.builtin.", "ansible.legacy.", "")


@dataclass(frozen=True)
class FilePlace:
    """Where a name is looked for: the playbook's folder, and the folder of the role that the file belongs to."""

    playbook: Path
    role: Path | None = None


@dataclass
class PlaybookFiles:
    """The search for what a product's playbooks name.

    sources: what the variable product_sources is; "" without it.
    ask: asks Ansible for its settings; only where a role is not found without them.
    later: whether roles and collections may come from elsewhere: a requirements file, another Ansible.
    """

    sources: str
    ask: Callable[[], Configuration]
    later: bool = False
    _seen: set[tuple[Path, Path | None]] = field(default_factory=set)
    _open: tuple[Path, ...] = ()  # files and roles that Ansible reads as parts of each other before it runs any of them

    def missing(self, playbook: Path, depth: int = 0) -> Iterator[str]:
        """Yield what a playbook, and what it imports, names and lacks; each with the file that names it.

        What is a part of itself is a mistake, which ends Ansible. An include may be: it is read while tasks run.
        """
        if depth > DEEPEST or (playbook, None) in self._seen:
            return
        self._seen.add((playbook, None))
        if trouble := _malformed(playbook):
            yield trouble
            return
        yield from self._within((*self._open, playbook.resolve()), self._plays(playbook, depth))

    def _plays(self, playbook: Path, depth: int) -> Iterator[str]:
        for play in _entries(playbook):
            name = _named(play, "import_playbook")
            if name is not None:
                yield from self._imported(playbook, name, depth)
            else:
                yield from self._of_play(play, playbook)

    def _within(self, now_open: tuple[Path, ...], found: Iterator[str]) -> Iterator[str]:
        """Yield what is found while other files and roles are open."""
        before, self._open = self._open, now_open
        yield from found
        self._open = before

    def _imported(self, playbook: Path, name: Any, depth: int) -> Iterator[str]:
        word = self._word(name)
        if word is None:
            return
        path = playbook.parent / word
        if _is(path.is_file) and path.resolve() in self._open:
            yield _cycle(playbook, "import_playbook", path)
        elif _is(path.is_file):
            yield from self.missing(path, depth + 1)
        elif FQCN.fullmatch(word) and not word.endswith((".yml", ".yaml")):
            yield from self._collection(playbook, word)
        else:
            yield _absent(playbook, "import_playbook", path)

    def _of_play(self, play: Mapping[str, Any], playbook: Path) -> Iterator[str]:
        place = FilePlace(playbook.parent)
        for vars_files in _listed(play.get("vars_files")):
            words = [self._word(file_name) for file_name in _listed(vars_files)]
            if words and None not in words and not any(self._beside(str(w), place, playbook, "vars") for w in words):
                yield _absent(playbook, "vars_files", playbook.parent / str(words[0]))
        for role in _listed(play.get("roles")):
            name = role.get("role", role.get("name")) if isinstance(role, Mapping) else role
            if "collections" not in play:
                yield from self._role(name, place, playbook, "roles")
        for key in TASKS:
            yield from self._tasks(play.get(key), place, playbook)

    def _tasks(self, tasks: Any, place: FilePlace, file: Path, *, maybe: bool = False) -> Iterator[str]:
        """Yield what tasks lack; `maybe`: whether a condition above them may keep an include from being done."""
        for task in _listed(tasks):
            if not isinstance(task, Mapping):
                continue
            unsure = maybe or "when" in task or "loop" in task or any(str(key).startswith("with_") for key in task)
            for key in BLOCKS:
                yield from self._tasks(task.get(key), place, file, maybe=unsure)
            for action in ("import_tasks", "include_tasks"):
                if not (unsure and action == "include_tasks"):
                    yield from self._file(action, _named(task, action), place, file)
            for action in ("import_role", "include_role"):
                role = _named(task, action)
                if isinstance(role, Mapping) and not (unsure and action == "include_role"):
                    yield from self._role(role.get("name"), place, file, action, role.get("tasks_from"))
            if not unsure:
                yield from self._variables(_named(task, "include_vars"), place, file)

    def _file(self, action: str, argument: Any, place: FilePlace, file: Path) -> Iterator[str]:
        word = self._word(argument.get("file") if isinstance(argument, Mapping) else argument)
        if word is None:
            return
        path = self._beside(word, place, file, "tasks")
        if path is None:
            yield _absent(file, action, file.parent / word)
        else:
            yield from self._inner(path, place, file, action)

    def _variables(self, argument: Any, place: FilePlace, file: Path) -> Iterator[str]:
        word = self._word(argument.get("file") if isinstance(argument, Mapping) else argument)
        if word is not None and self._beside(word, place, file, "vars") is None:
            yield _absent(file, "include_vars", file.parent / word)

    def _inner(self, path: Path, place: FilePlace, file: Path, key: str) -> Iterator[str]:
        around = () if key.startswith("include_") else self._open
        if path.resolve() in around:
            yield _cycle(file, key, path)
        elif (path, place.role) not in self._seen:
            self._seen.add((path, place.role))
            yield from self._within((*around, path.resolve()), self._tasks(_entries(path), place, path))

    def _role(self, name: Any, place: FilePlace, file: Path, key: str, tasks_from: Any = None) -> Iterator[str]:
        word = self._word(name)
        if word is None:
            return
        if FQCN.fullmatch(word) and "/" not in word:
            yield from self._collection(file, word)
            return
        role = self._role_folder(word, place)
        if role is None:
            if not self.later:
                yield f"{file} names the role {word} under `{key}`, and there is none; {SUBMODULE}"
            return
        entry = self._word(tasks_from) if tasks_from is not None else "main"
        if entry is None:
            return
        path = _first(role / "tasks" / f"{entry}{ending}" for ending in ENDINGS)
        if path is None and tasks_from is not None:
            yield _absent(file, key, role / "tasks" / entry)
        inner = FilePlace(place.playbook, role)
        for each in (path, _first(role / "handlers" / f"main{ending}" for ending in ENDINGS)):
            if each is not None:
                yield from self._inner(each, inner, file, key)
        around = self._open if key == DEPENDENCIES else ()
        if role.resolve() in around:
            yield _cycle(file, key, role)
        else:
            yield from self._within((*around, role.resolve()), self._needed(role, inner))

    def _needed(self, role: Path, place: FilePlace) -> Iterator[str]:
        for each in _first_of_meta(role):
            needed = each.get("role", each.get("name")) if isinstance(each, Mapping) else each
            yield from self._role(needed, place, role / "meta" / "main.yml", DEPENDENCIES)

    def _role_folder(self, word: str, place: FilePlace) -> Path | None:
        near = [place.playbook / "roles" / word, place.playbook / word]
        if place.role is not None:
            near += [place.role.parent / word, place.role / "roles" / word]
        here = next((path for path in near if _is(path.is_dir)), None)
        if here is not None:
            return here
        return next((path for folder in self._roles if _is((path := Path(folder) / word).is_dir)), None)

    @cached_property
    def _known(self) -> Configuration:
        return self.ask()

    @cached_property
    def _roles(self) -> list[str]:
        return self._known.listed(ROLES)

    def _collection(self, file: Path, word: str) -> Iterator[str]:
        namespace, name = word.split(".")[:2]
        if self.later or namespace == "ansible":
            return
        folders = [file.parent / "collections", *map(Path, self._known.listed(COLLECTIONS))]
        inside = [folder / "ansible_collections" / namespace / name for folder in folders]
        inside += [folder / namespace / name for folder in folders if folder.name == "ansible_collections"]
        if not any(path.is_dir() for path in inside):
            yield (
                f"{file} names {word}, and the collection {namespace}.{name} is not installed; name it in a file of "
                "requirements under `ansible.requirements`"
            )

    def _beside(self, word: str, place: FilePlace, file: Path, kind: str) -> Path | None:
        """Return a file that a task or play names: relative to the role, to the file that names it, to the playbook."""
        folders = [file.parent, file.parent / kind, place.playbook, place.playbook / kind]
        if place.role is not None:
            folders += [place.role / kind, place.role]
        return _first(folder / f"{word}{ending}" for folder in folders for ending in ENDINGS)

    def _word(self, word: Any) -> str | None:
        """Return a name that is fixed; None for any other."""
        try:
            return plain(word, self.sources)
        except Unclear:
            return None


def _first(paths: Iterator[Path]) -> Path | None:
    return next((path for path in paths if _is(path.is_file)), None)


def _is(asked: Callable[[], bool]) -> bool:
    """Ask about a path: one that no file system takes is not there."""
    try:
        return asked()
    except (OSError, ValueError):
        return False


def _malformed(playbook: Path) -> str:
    """Say why a playbook is not YAML or has no plays, "" if it has; what Ansible's vault has is not looked into."""
    if not _is(playbook.is_file):
        return ""
    try:
        text = read_text(playbook)
    except BadInput as error:
        return f"{error.summary}: {error.hint}"
    return "" if text.startswith(VAULT) else malformed(text, playbook) or no_plays(text, playbook)


def _entries(file: Path) -> list[Mapping[str, Any]]:
    """Return the plays or tasks of a file; nothing where Ansible itself will say what is wrong with it."""
    try:
        return [entry for entry in read_plays(file) if isinstance(entry, Mapping)]
    except Unclear:
        return []


def _first_of_meta(role: Path) -> list[Any]:
    path = _first(role / "meta" / f"main{ending}" for ending in ENDINGS)
    try:
        content = read_plays(path, of=dict) if path is not None else {}
    except Unclear:
        return []
    return _listed(content.get("dependencies"))


def _named(task: Mapping[str, Any], action: str) -> Any:
    return next((task[f"{prefix}{action}"] for prefix in PREFIXES if f"{prefix}{action}" in task), None)


def _listed(entries: Any) -> list[Any]:
    return entries if isinstance(entries, list) else [] if entries is None else [entries]


def _cycle(file: Path, key: str, path: Path) -> str:
    return f"{file} names {path} under `{key}`, which it is a part of; remove it: Ansible would never come to an end"


def _absent(file: Path, key: str, path: Path) -> str:
    return f"{file} names the file {path} under `{key}`, which does not exist; {SUBMODULE}"
