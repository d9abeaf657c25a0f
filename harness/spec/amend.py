"""One document over another, value by value: what a file with `extends: default` makes of the packaged one.

Mappings merge by key. Lists whose entries have names merge by name, new entries come last. Everything else is replaced.
A key set to null is removed, as is a named entry with `remove: true`. Every value keeps its file and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.spec.lines import Document, Location, Problem, dotted
from harness.spec.shape import shown, unknown

EXTENDS, DEFAULT, REMOVE = "extends", "default", "remove"
NAMES = ("name", "id", "why")  # what the entries of a list are known by, the first that all of them have
ALTERNATIVES = ("not", "class", "not_class")  # a condition is one of these alone: another one replaces it
KIND = "kind"  # of an image's source: another kind has other keys, so it replaces the whole
Pair = tuple[Any, Any]


def amended(base: Document, top: Document) -> tuple[Document, list[Problem]]:
    """Return a document with the changes that another one makes to it, and what is wrong with these."""
    merge = _Merge(base, top)
    changes = {key: value for key, value in top.content.items() if key != EXTENDS}
    content = merge.value((base.content, changes), ((), (), ()))
    return Document(top.file, content, merge.lines, merge.files), merge.problems


def amended_data(base: Any, top: Mapping[str, Any], file: Path) -> tuple[Any, list[Problem]]:
    """Return plain data with the changes that other data makes to it; `file` is what the problems name."""
    made, problems = amended(Document(file, base, {}), Document(file, top, {}))
    return made.content, problems


@dataclass
class _Merge:
    """Two documents becoming one; locations come as three: in the result, in the base, in the changes."""

    base: Document
    top: Document
    lines: dict[Location, int] = field(default_factory=dict)
    files: dict[Location, Path] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def value(self, pair: Pair, at: tuple[Location, Location, Location]) -> Any:
        """Return a value of the base with what the changes say of it."""
        old, new = pair
        here, _, above = at
        if isinstance(old, Mapping) and isinstance(new, Mapping) and not _another(old, new):
            self._place(self.top, here, above)
            return self._mapping(old, new, at)
        key = _named_by(old)
        if key is not None and isinstance(new, list) and new:
            self._place(self.top, here, above)
            return self._entries(old, new, key, at)
        return self._copy(self.top, new, here, above)

    def _mapping(
        self, old: Mapping[str, Any], new: Mapping[str, Any], at: tuple[Location, Location, Location]
    ) -> dict[str, Any]:
        here, below, above = at
        made: dict[str, Any] = {}
        for key in dict.fromkeys([*old, *new]):
            places = (*here, key), (*below, key), (*above, key)
            if key not in new:
                made[key] = self._copy(self.base, old[key], places[0], places[1])
            elif new[key] is None:
                self._removed(key, old, places[2])
            elif key not in old:
                made[key] = self._copy(self.top, new[key], places[0], places[2])
            else:
                made[key] = self.value((old[key], new[key]), places)
        return made

    def _entries(
        self,
        old: Sequence[Mapping[str, Any]],
        new: Sequence[Any],
        key: str,
        at: tuple[Location, Location, Location],
    ) -> list[Any]:
        here, below, above = at
        changes = dict(self._changes(new, key, above))
        known = {entry[key]: entry for entry in old}
        made: list[Any] = []
        for number, (name, entry) in enumerate(known.items()):
            place = (*here, len(made))
            if name not in changes:
                made.append(self._copy(self.base, entry, place, (*below, number)))
                continue
            position, change = changes.pop(name)
            if change.get(REMOVE) is not True:
                made.append(self.value((entry, change), (place, (*below, number), (*above, position))))
        for name, (position, change) in changes.items():
            if REMOVE in change:
                self._removed(name, known, (*above, position))
            else:
                made.append(self._copy(self.top, change, (*here, len(made)), (*above, position)))
        return made

    def _changes(
        self, new: Sequence[Any], key: str, above: Location
    ) -> Iterator[tuple[str, tuple[int, Mapping[str, Any]]]]:
        """Yield each entry of the changes by its name; one without a name is a mistake, as is one that comes twice."""
        seen: set[str] = set()
        for position, change in enumerate(new):
            if not isinstance(change, Mapping) or change.get(key) is None:
                self._report((*above, position), f"has no `{key}`, by which the entries of this list are known; add it")
                continue
            name = str(change[key])  # a number without quotes is reported where values are checked
            if name in seen:
                self._report((*above, position), f"changes {key} {name!r} a second time; put both changes in one entry")
            if REMOVE in change and change[REMOVE] is not True:
                self._report((*above, position, REMOVE), f"expected true, got {shown(change[REMOVE])}")
            seen.add(name)
            yield name, (position, change)

    def _removed(self, name: str, known: Mapping[str, Any], above: Location) -> None:
        if name not in known:
            self._report(above, f"removes what the default does not have: {unknown('name', name, known)}")

    def _report(self, above: Location, message: str) -> None:
        self.problems.append(Problem(self.top.file, self.top.line_of(above), dotted(above), message))

    def _place(self, document: Document, here: Location, there: Location) -> None:
        if there in document.lines:
            self.lines[here] = document.lines[there]
            self.files[here] = document.files.get(there, document.file)

    def _copy(self, document: Document, content: Any, here: Location, there: Location) -> Any:
        """Return a value of one of the documents as it is, its places taken over."""
        self._place(document, here, there)
        if isinstance(content, Mapping):
            return {key: self._copy(document, inner, (*here, key), (*there, key)) for key, inner in content.items()}
        if isinstance(content, list):
            return [self._copy(document, item, (*here, i), (*there, i)) for i, item in enumerate(content)]
        return content


def _another(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether a mapping stands for another thing than the one it amends, so that no key of that one stays."""
    if any(len(mapping) == 1 and next(iter(mapping)) in ALTERNATIVES for mapping in (old, new)):
        return True
    return KIND in old and KIND in new and old[KIND] != new[KIND]


def _named_by(old: Any) -> str | None:
    """Return the key by which the entries of a list are known, None where it is no such list."""
    if not isinstance(old, list) or not old or not all(isinstance(entry, Mapping) for entry in old):
        return None
    return next((key for key in NAMES if all(isinstance(entry.get(key), str) for entry in old)), None)
