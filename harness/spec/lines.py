"""YAML with line numbers: a document's plain data, and the line of every path in it.

Covers syntax errors, duplicate keys, and what YAML allows but a file for people should not need (merge keys, an anchor
inside itself, endless nesting), and characters that no path, argument or variable of a program can have. Does not know
what the data means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from harness.errors import BadInput, NotText
from harness.files import read_text
from harness.yaml_text import LOADER as PARSER
from harness.yaml_text import UNUSABLE, line_of, too_deep, words_of

Place = TypeVar("Place")
Location = tuple[str | int, ...]
Compose = Callable[[str, Any], list[yaml.Node | None]]  # a text, and the loader to use
Finding = tuple[Location, str]  # where in a document, and what is wrong there

MERGE_KEY = "<<"
DEEPEST = 40  # levels of nesting; the deepest file of ours has eight
LARGEST = 100_000  # values in one file, aliases counted as often as they are used
TEXT = "tag:yaml.org,2002:str"
PLAIN = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
# NUL ends what the operating system is given, and a surrogate is half of a character, so UTF-8 lacks it.
UNUSABLE_CHARACTER = re.compile("[\0\ud800-\udfff]")
TRUTHS = frozenset({"true", "false"})  # of what YAML 1.1 takes for one, what nobody takes for anything else


class _Deep(Exception):
    """A text is nested deeply, perhaps too deeply."""


class _Shallow(PARSER):  # type: ignore[misc, valid-type] # one of two
    """Composes texts that are not nested deeply, which saves another pass through them.

    Both methods are called around each node. They would choose tags by the nodes' places, which no loader of ours does.
    """

    depth = -1  # collections around a node

    def descend_resolver(self, *_: object) -> None:
        """Begin with a node."""
        self.depth += 1
        if self.depth >= DEEPEST:
            raise _Deep

    def ascend_resolver(self) -> None:
        """End with it."""
        self.depth -= 1


@dataclass(frozen=True)
class Problem:
    """One error in a file: where it is, what is wrong, what would be right."""

    file: Path
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


@dataclass(frozen=True)
class Document:
    """A parsed file: its data and the 1-based line of each location.

    files: where a file amends another, the file that each location with a line comes from.
    written: the scalars that YAML takes for something that is written otherwise: 1.30, 010, yes, 1:30, 2026-01-02.
    """

    file: Path
    content: Any
    lines: Mapping[Location, int]
    files: Mapping[Location, Path] = field(default_factory=dict)
    written: Mapping[Location, str] = field(default_factory=dict)

    def place_of(self, location: Location) -> tuple[Path, int]:
        """Return the file and the line of a location, or of its nearest parent that has one."""
        places = (location[:end] for end in range(len(location), -1, -1))
        known = next((place for place in places if place in self.lines), None)
        return (self.file, 1) if known is None else (self.files.get(known, self.file), self.lines[known])

    def line_of(self, location: Location) -> int:
        """Return the line of a location, or of its nearest parent that has one."""
        return self.place_of(location)[1]

    def below(self, location: Location) -> Document:
        """Return the part at a location as a document, whose lines are those of this file."""
        content, depth = self.content, len(location)
        for part in location:
            content = content[part]

        def inner(places: Mapping[Location, Place]) -> dict[Location, Place]:
            return {at[depth:]: place for at, place in places.items() if at[:depth] == location}

        return Document(self.file, content, inner(self.lines), inner(self.files), inner(self.written))

    def problem(self, location: Location, message: str) -> Problem:
        """Return an error at a location of this file."""
        return Problem(*self.place_of(location), dotted(location), message)


def below(at: Location, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings with a place put before theirs."""
    return (((*at, *inner), message) for inner, message in findings)


def printable(word: str) -> str:
    """Render a name for a message: as it is, or escaped where a terminal or a reader of lines would act on it."""
    return word if word.isprintable() else repr(word)


def dotted(location: Location) -> str:
    """Render a location as a person writes it: axes[2].values[0].id."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{printable(part)}" if text else printable(part)
    return text


def read(file: Path) -> tuple[Document, list[Problem]]:
    """Parse one YAML file; problems instead of exceptions, so that the errors of all files come at once."""
    roots, problems = _roots(file, _one)
    return _document(file, roots[0], problems) if roots else (Document(file, None, {}), problems)


def parse(name: Path, text: str) -> tuple[Document, list[Problem]]:
    """Parse a text of YAML that is in no file; `name`: what problems call it."""
    roots, problems = _composed(name, text, _one)
    return _document(name, roots[0], problems) if roots else (Document(name, None, {}), problems)


def read_all(file: Path) -> tuple[list[Document], list[Problem]]:
    """Parse a YAML file of several documents, as kubectl reads them; those without content are left out."""
    roots, problems = _roots(file, lambda text, loader: list(yaml.compose_all(text, Loader=loader)))
    parsed = [_document(file, root, []) for root in roots]
    documents = [document for document, _ in parsed if document.content is not None]
    return documents, [*problems, *(problem for _, wrong in parsed for problem in wrong)]


@lru_cache(maxsize=32)
def _one(text: str, loader: Any) -> list[yaml.Node | None]:
    """Return the root of a text's only document; a command may ask for a file of the matrix several times."""
    return [yaml.compose(text, Loader=loader)]


def _document(file: Path, root: yaml.Node | None, problems: list[Problem]) -> tuple[Document, list[Problem]]:
    reading = _Reading(file)
    content = reading.value(root, ()) if root is not None else None
    document = Document(file, None if reading.unusable else content, reading.lines, written=reading.written)
    return document, [*problems, *reading.unusable, *reading.problems]


def _roots(file: Path, compose: Compose) -> tuple[list[yaml.Node | None], list[Problem]]:
    """Return the root of each document of a file; none of a file that cannot be read, and why."""
    try:
        return _composed(file, read_text(file), compose)
    except BadInput as error:
        summary = error.summary.removeprefix(f"{file} ").removeprefix(f"{file}: ")
        absent = isinstance(error.__cause__, FileNotFoundError)
        message = "the file does not exist" if absent else f"{summary}: {error.hint}"
        return [], [Problem(file, error.line if isinstance(error, NotText) else 1, "", message)]


def _composed(file: Path, text: str, compose: Compose) -> tuple[list[yaml.Node | None], list[Problem]]:
    try:
        try:
            return compose(text, _Shallow), []
        except _Deep:
            deep = too_deep(text, DEEPEST)
            if deep:
                message = f"malformed YAML: nested too deeply; at most {DEEPEST} levels are allowed"
                return [], [Problem(file, deep, "", message)]
            return compose(text, PARSER), []
    except yaml.YAMLError as error:
        return [], [Problem(file, line_of(error, text), "", f"malformed YAML: {words_of(error, text)}")]


@dataclass
class _Reading:
    """One file being turned from YAML nodes into plain data."""

    file: Path
    lines: dict[Location, int] = field(default_factory=dict)
    written: dict[Location, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unusable: list[Problem] = field(default_factory=list)
    open_nodes: set[int] = field(default_factory=set)
    values: int = 0
    full: bool = False
    constructor: yaml.constructor.SafeConstructor = field(default_factory=yaml.constructor.SafeConstructor)

    def value(self, node: yaml.Node, at: Location) -> Any:
        self.lines.setdefault(at, node.start_mark.line + 1)
        self.values += 1
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, at)
        if self.full or self._too_much(node, at):
            return None
        self.open_nodes.add(id(node))
        if isinstance(node, yaml.MappingNode):
            made: Any = self._mapping(node, at)
        else:
            made = [self.value(item, (*at, i)) for i, item in enumerate(node.value)]
        self.open_nodes.discard(id(node))
        return made

    def _too_much(self, node: yaml.Node, at: Location) -> bool:
        self.full = self.values > LARGEST
        if self.full:
            self._report(
                node, at, f"more than {LARGEST} values after expanding aliases; use fewer values or no aliases"
            )
        elif node.tag not in PLAIN:
            tag = node.tag.removeprefix("tag:yaml.org,2002:")
            self._report(node, at, f"a tag that is not supported: {tag}; write the value without it")
        elif id(node) in self.open_nodes:
            self._report(node, at, "the anchor is used inside itself; write the value out")
        elif len(at) >= DEEPEST:
            self._report(node, at, f"nested too deeply; at most {DEEPEST} levels are allowed")
        else:
            return False
        return True

    def _report(self, node: yaml.Node, at: Location, message: str) -> None:
        self.problems.append(Problem(self.file, node.start_mark.line + 1, dotted(at), message))

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._report(key_node, at, "a key must be a word, not a list or a mapping")
                continue
            key = str(key_node.value)
            here = (*at, key)
            self._refuse_unusable(key_node, here)
            if key == MERGE_KEY:
                self._report(key_node, here, "merge keys are not supported; write the keys out")
                continue
            if key in content:
                self._report(key_node, here, f"duplicate key; the first is on line {self.lines[here]}")
            self.lines[here] = key_node.start_mark.line + 1
            content[key] = self.value(value_node, here)
        return content

    def _refuse_unusable(self, node: yaml.ScalarNode, at: Location) -> None:
        """Report a character for which any check or program that is given the text would break."""
        if (found := UNUSABLE_CHARACTER.search(node.value)) is not None:
            what = "a control character, NUL" if found[0] == "\0" else f"half of a character, {found[0]!a}"
            message = f"it contains {what}, which no path, argument or variable of a program can have; remove it"
            self.unusable.append(Problem(self.file, node.start_mark.line + 1, dotted(at), message))

    def _scalar(self, node: yaml.ScalarNode, at: Location) -> Any:
        self._refuse_unusable(node, at)
        if node.tag == TEXT:
            return node.value
        try:
            scalar = self.constructor.construct_object(node, deep=True)
        except UNUSABLE as error:
            self.constructor = yaml.constructor.SafeConstructor()  # the first one remembers what it did not finish
            self._report(node, at, f"invalid value: {words_of(error)}")
            return None
        if not _as_written(scalar, node.value):
            self.written[at] = node.value
        return scalar


def _as_written(value: Any, text: str) -> bool:
    """Tell whether a value is written as it was."""
    if isinstance(value, bool | date):
        return text.lower() in TRUTHS
    try:
        return value is None or str(value) == text
    except ValueError:  # an integer of more digits than Python prints
        return True
