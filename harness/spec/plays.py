"""Plays and files of a product, read leniently: the hosts of plays, what files mention.

The plays are read, not run: what depends on variables, on groups that a play makes or on other inventories is not
judged. https://docs.ansible.com/ansible/latest/inventory_guide/intro_patterns.html

Only what no file mentions is certain: what one mentions may be a comment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from harness import yaml_text
from harness.errors import BadInput
from harness.files import read_bytes, read_text

IMPORTS = ("import_playbook", "ansible.builtin.import_playbook", "include", "ansible.builtin.include")
EVERYWHERE = frozenset({"all", "*"})
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
SEPARATOR = re.compile(r"[,:](?![^\[]*\])")
SUBSCRIPT = re.compile(r"\[[-\d:]+\]$")
DEEPEST = 20  # imports within imports; more are a circle


class Unclear(Exception):
    """Something that is known only once the playbook runs."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # with libyaml, where it is
    """Reads Ansible's own tags, such as !vault, as nothing."""


_Loader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)


@dataclass(frozen=True)
class Groups:
    """The groups of an inventory: each name, and which of our groups are in it; names of machines as a pattern."""

    names: Mapping[str, frozenset[str]]
    machines: re.Pattern[str]

    def within(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return which of our groups the patterns of a play reach. Raises Unclear where a machine is named."""
        reached: set[str] = set()
        for pattern in hosts:
            for part in (word.strip() for word in SEPARATOR.split(pattern)):
                if part and part[0] not in "!&":
                    reached |= self._one(SUBSCRIPT.sub("", part))
        return frozenset(reached)

    def _one(self, word: str) -> frozenset[str]:
        if word in EVERYWHERE:
            return frozenset().union(*self.names.values())
        if word in HERE:
            return frozenset()
        if word.startswith("~") or self.machines.fullmatch(word):
            raise Unclear
        return frozenset().union(*(ours for name, ours in self.names.items() if fnmatchcase(name, word)))


def patterns(playbook: Path, sources: str, depth: int = 0) -> Iterator[list[str]]:
    """Yield the patterns of each play of a playbook, and of those that it imports.

    Args:
        sources: what the variable product_sources is; "" without it.

    Raises:
        Unclear: the playbook is not clear without running it, or is not a playbook: Ansible will say what is wrong.
    """
    for play in read_plays(playbook):
        if not isinstance(play, Mapping) or depth > DEEPEST:
            raise Unclear
        imported = next((play[key] for key in IMPORTS if key in play), None)
        if imported is not None:
            yield from patterns(playbook.parent / plain(imported, sources), sources, depth + 1)
        else:
            hosts = play.get("hosts")
            yield [plain(word, sources) for word in (hosts if isinstance(hosts, list) else [hosts])]


def read_plays(playbook: Path, of: type = list) -> Any:
    """Return the content of a file of plays or tasks, or of another type, to be read only.

    Raises:
        Unclear: it has none such.
    """
    try:
        content = _content(read_text(playbook))
    except BadInput as error:
        raise Unclear from error
    if not isinstance(content, of):
        raise Unclear
    return content


@lru_cache(maxsize=512)
def _content(text: str) -> Any:
    """Return what a text says: phases of a product share most of their playbooks, and products most of their phases."""
    return yaml_text.document(text, "a playbook", loader=_Loader)


NAMELESS = "give it `hosts`, such as `hosts: all`"
LISTS = ("roles", "pre_tasks", "tasks", "post_tasks", "handlers")  # of a play: Ansible takes nothing else there
NULL = "tag:yaml.org,2002:null"
NUMBERS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "timestamp"))


def no_plays(text: str, name: object) -> str:
    """Say which line keeps Ansible from taking a text, which is YAML, for a playbook; "" if none does.

    Args:
        name: what messages call the text, such as its file.
    """
    root = yaml.compose(text, Loader=_Loader)
    if root is None or root.tag == NULL or (isinstance(root, yaml.SequenceNode) and not root.value):
        return f"{name}:1: no play in it; write one (`- hosts: all`), or name another file"
    if not isinstance(root, yaml.SequenceNode):
        return f"{name}:{_line(root)}: not a list of plays; begin each play with `- hosts: ...`"
    troubles_of_plays = ((play, _no_play(play)) for play in root.value)
    return next(
        (f"{name}:{_line(node)}: {wrong}" for play, troubles in troubles_of_plays for node, wrong in troubles), ""
    )


def _no_play(play: yaml.Node) -> Iterator[tuple[yaml.Node, str]]:
    """Yield what keeps an entry of a playbook from being a play, and where."""
    if not isinstance(play, yaml.MappingNode):
        yield play, "an entry that is not a play; begin each play with `- hosts: ...`"
        return
    keys = {str(key.value): value for key, value in play.value}
    imported = next((keys[key] for key in IMPORTS if key in keys), None)
    if imported is not None:
        if _is_empty(imported):
            yield imported, "`import_playbook` names no playbook; write its path"
        return
    hosts = keys.get("hosts")
    if hosts is None and "<<" not in keys:
        yield play, f"a play without `hosts`{_of(play)}; {NAMELESS}"
    elif hosts is not None and (wrong := _wrong_hosts(hosts)):
        yield hosts, f"`hosts` {wrong}; {NAMELESS}"
    for key in LISTS:
        if key in keys and not isinstance(keys[key], yaml.SequenceNode) and keys[key].tag != NULL:
            yield keys[key], f"`{key}` of a play is not a list; begin each of its entries with `- `"


def _wrong_hosts(hosts: yaml.Node) -> str:
    if isinstance(hosts, yaml.MappingNode):
        return "has a mapping; put a template in quotes, or name a group"
    if isinstance(hosts, yaml.ScalarNode) and hosts.tag in NUMBERS:
        return "is a number, a date or true or false; put a name in quotes"
    names = hosts.value if isinstance(hosts, yaml.SequenceNode) else [hosts]
    return "names nothing" if not names or any(_is_empty(host) for host in names) else ""


def _is_empty(node: yaml.Node) -> bool:
    return node.tag == NULL or (isinstance(node, yaml.ScalarNode) and not node.value.strip())


def _of(node: yaml.Node) -> str:
    """Return a hint at what was meant, where an entry looks like a task: a file of tasks is not a playbook."""
    keys = [str(key.value) for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    return "" if "tasks" in keys or "roles" in keys or not keys else f" (it has {', '.join(keys[:4])})"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1 if node.start_mark is not None else 1


def plain(word: Any, sources: str) -> str:
    """Return a text with product_sources filled in. Raises Unclear where it is not text, or has other templates."""
    if not isinstance(word, str):
        raise Unclear
    filled = re.sub(r"\{\{ *product_sources *\}\}", lambda _: sources, word) if sources else word
    if "{{" in filled or "{%" in filled:
        raise Unclear
    return filled


def hosts_of(playbook: Path, playbooks_before: set[Path]) -> Iterator[str]:
    """Yield the groups that the plays of a playbook name, and of those that it imports; templates name nothing."""
    if playbook in playbooks_before:
        return
    playbooks_before.add(playbook)
    for play in plays_of(playbook):
        hosts = play.get("hosts", ())
        for pattern in [hosts] if isinstance(hosts, str) else hosts if isinstance(hosts, list) else ():
            if isinstance(pattern, str) and "{{" not in pattern:
                words = (word.strip().lstrip("!&").partition("[")[0] for word in pattern.replace(",", ":").split(":"))
                yield from (word for word in words if word and word.replace("_", "").replace("-", "").isalnum())
        imported = play.get("import_playbook", play.get("ansible.builtin.import_playbook"))
        if isinstance(imported, str):
            yield from hosts_of(playbook.parent / imported, playbooks_before)


class _Lenient(yaml.SafeLoader):
    """Reads tags such as !vault as nothing: only the names of plays' hosts matter here."""


_Lenient.add_multi_constructor("!", lambda *_: None)


def plays_of(file: Path) -> list[dict[str, Any]]:
    """Return the plays of a playbook; nothing where the file is none."""
    try:
        content = yaml.load(read_text(file), _Lenient)  # noqa: S506 - a SafeLoader
    except (BadInput, ValueError, yaml.YAMLError, RecursionError):
        return []
    plays = [play for play in content if isinstance(play, dict)] if isinstance(content, list) else []
    return [
        play for play in plays if any(key.rpartition(".")[2] in ("hosts", "import_playbook") for key in map(str, play))
    ]


MADE = re.compile(rb"add_host|group_by")  # actions that make groups while a playbook runs
NAMED = re.compile(rb"\b(?:key|groups?|groupname) *[:=] *((?:\{\{.*?\}\}|[^\n,}])*)")  # what they name
LARGEST = 1 << 20  # bytes of a file that is searched; playbooks, templates and scripts are far smaller


def mentions(words: tuple[str, ...], directory: Path, sources: Path | None) -> bool:
    """Tell whether any file of the product or of its sources has one of some words."""
    pattern = re.compile("|".join(map(re.escape, words)).encode())
    return any(pattern.search(text) is not None for text in _all_texts(directory, sources))


def made_later(names: Collection[str], directory: Path, sources: Path | None) -> bool:
    """Tell whether a task of the product's may make a group of one of these names."""
    for text in _all_texts(directory, sources):
        if MADE.search(text) is None:
            continue
        for name in (
            name_in_bytes.decode(errors="replace").strip().strip("\"'[]") for name_in_bytes in NAMED.findall(text)
        ):
            pattern = ".*".join(map(re.escape, re.split(r"\{\{.*?\}\}", name)))
            if any(re.fullmatch(pattern, word) for word in names):
                return True
    return False


def _all_texts(directory: Path, sources: Path | None) -> Iterator[bytes]:
    """Yield the files of the product and of its sources."""
    yield from _texts(directory)
    if sources is not None and not sources.is_relative_to(directory):
        yield from _texts(sources)


def _texts(folder: Path) -> Iterator[bytes]:
    for above, below, files in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".") and name not in ("node_modules", "runs")]
        for path in (Path(above) / name for name in files):
            try:
                if path.stat().st_size <= LARGEST:
                    yield read_bytes(path, largest=LARGEST)
            except (BadInput, OSError):
                continue
