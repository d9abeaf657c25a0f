"""The text of plan.lock.yml as vmatrix writes it, read by its lines: a YAML parser takes ten times as long for it.

Knows the forms that `lock.render` writes and no other: what somebody has changed by hand is left to the parser, so that
every mistake is found and told as in any other file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml

from harness.spec import lines
from harness.spec.lines import TEXT, Location

WORD = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]*")
LINE = re.compile(r"( *(?:- )?)([^ :]+):(?: (.+))?")
# What may begin a line: the name of an infra profile and of a tier, the keys of a tier and of a cell.
TOP, INFRA, TIER, OF_TIER, CELL, OF_CELL = "", " " * 2, " " * 4, " " * 6, " " * 8 + "- ", " " * 10
RESOLVER = yaml.resolver.Resolver()


def read(text: str) -> dict[str, Any] | None:
    """Return what a lock holds, None where a line is none of those that vmatrix writes."""
    reading = _LockReading()
    try:
        for line in text.removesuffix("\n").split("\n"):
            if not line.startswith("# "):
                reading.add(line)
    except ValueError:
        return None
    return reading.top if all(reading.opened) else None


@dataclass(frozen=True)
class Places(Mapping[Location, int]):
    """The line of each location of a text, found when one is asked for: that is when there is a mistake to be told."""

    file: Path
    text: str

    def __getitem__(self, location: Location) -> int:
        """Return the line of a location; KeyError where it has none."""
        return self._found[location]

    def __iter__(self) -> Iterator[Location]:
        """Yield the locations."""
        return iter(self._found)

    def __len__(self) -> int:
        """Return how many locations there are."""
        return len(self._found)

    @cached_property
    def _found(self) -> Mapping[Location, int]:
        return lines.parse(self.file, self.text)[0].lines


class _LockReading:
    """A lock that is being read: the mapping that a line of each indentation belongs to, as far as there is one.

    opened: everything that further lines are to fill.
    """

    def __init__(self) -> None:
        self.top: dict[str, Any] = {}
        self.opened: list[Any] = [self.top]
        self._in: dict[str, Any] = {TOP: self.top}

    def add(self, line: str) -> None:
        """Take a line; ValueError where it is no line of a lock, or has no place here."""
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(line)
        begins, name, given = found.groups()
        if begins == CELL:
            self._cell(name, given)
            return
        inside = self._in.get(begins)
        key = word(name)
        if inside is None or key in inside:
            raise ValueError(line)
        self._in = {known: one for known, one in self._in.items() if len(known) <= len(begins)}
        inside[key] = self._opened(begins, key) if given is None else value(given)

    def _cell(self, name: str, given: str | None) -> None:
        cells = self._in.get(CELL)
        if cells is None or name != "id" or given is None:
            raise ValueError(name)
        cells.append({name: word(given)})
        self._in[OF_CELL] = cells[-1]

    def _opened(self, begins: str, key: str) -> Any:
        """Return what the lines further in will fill."""
        deeper = {TOP: INFRA, INFRA: TIER, TIER: OF_TIER, OF_TIER: CELL}.get(begins)
        if deeper is None or (begins == TOP) != (key == "plan") or (begins == OF_TIER) != (key == "cells"):
            raise ValueError(key)
        made: Any = [] if deeper == CELL else {}
        self._in[deeper] = made
        self.opened.append(made)
        return made


def value(text: str) -> Any:
    """Return a word, a list of words or a mapping of words; ValueError where a text is something else."""
    inner = text[1:-1].split(", ") if text[1:-1] else []
    if text[0] + text[-1] == "[]":
        return [word(one) for one in inner]
    if text[0] + text[-1] == "{}":
        pairs = [one.partition(": ") for one in inner]
        made = {word(key): word(given) for key, _, given in pairs}
        if len(made) < len(pairs):
            raise ValueError(text)
        return made
    return word(text)


@lru_cache(maxsize=4096)
def word(text: str) -> str:
    """Return a plain or quoted word; ValueError where YAML reads it as something else than a text."""
    quoted = len(text) > 1 and text[0] == text[-1] == "'"
    bare = text[1:-1] if quoted else text
    if WORD.fullmatch(bare) is None:
        raise ValueError(text)
    if not quoted and RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) != TEXT:  # type: ignore[no-untyped-call]
        raise ValueError(text)
    return bare
