"""Whether the plays of a product's playbooks are about the machines that a cell has, as far as the files tell.

The plays are read, not run: what depends on variables, on groups that a play makes or on other inventories is not
judged. https://docs.ansible.com/ansible/latest/inventory_guide/intro_patterns.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from harness import yaml_text
from harness.errors import BadInput
from harness.reading import read_text

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
        Unclear: the playbook is not clear without running it, or is no playbook: Ansible will say what is wrong.
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
    """Return the content of a file of plays or tasks, or of another type. Raises Unclear where it has none such."""
    try:
        content = yaml_text.document(read_text(playbook), playbook, loader=_Loader)
    except BadInput as error:
        raise Unclear from error
    if not isinstance(content, of):
        raise Unclear
    return content


def plain(word: Any, sources: str) -> str:
    """Return a text with product_sources filled in. Raises Unclear where it is no text, or has other templates."""
    if not isinstance(word, str):
        raise Unclear
    said = re.sub(r"\{\{ *product_sources *\}\}", lambda _: sources, word) if sources else word
    if "{{" in said or "{%" in said:
        raise Unclear
    return said
