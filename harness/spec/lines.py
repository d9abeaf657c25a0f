"""YAML with line numbers: a document's plain data, and the line of every path in it.

Covers syntax errors and duplicate keys. Does not know what the data means.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One mistake in a file: where it is, what is wrong, what would be right."""

    file: Path
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


@dataclass(frozen=True)
class Document:
    """A parsed file: its data and the 1-based line of each location."""

    file: Path
    content: Any
    lines: dict[Location, int]

    def line_of(self, location: Location) -> int:
        """Return the line of a location, or of its nearest parent that has one."""
        for end in range(len(location), -1, -1):
            if location[:end] in self.lines:
                return self.lines[location[:end]]
        return 1


def dotted(location: Location) -> str:
    """Render a location as a person writes it: axes[2].values[0].id."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(file: Path) -> tuple[Document, list[Problem]]:
    """Parse one YAML file; problems instead of exceptions, so that all files' mistakes come at once."""
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        return Document(file, None, {}), [Problem(file, 1, "", "the file does not exist")]
    except (OSError, UnicodeDecodeError) as error:
        return Document(file, None, {}), [Problem(file, 1, "", f"the file cannot be read as UTF-8 text: {error}")]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        return Document(file, None, {}), [
            Problem(file, line, "", f"malformed YAML: {getattr(error, 'problem', error)}")
        ]
    lines: dict[Location, int] = {}
    problems: list[Problem] = []
    content = _construct(root, (), lines, problems, file) if root is not None else None
    return Document(file, content, lines), problems


def _construct(node: yaml.Node, at: Location, lines: dict[Location, int], problems: list[Problem], file: Path) -> Any:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, at, lines, problems, file)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*at, i), lines, problems, file) for i, item in enumerate(node.value)]
    return _scalar(node, at, problems, file)


def _mapping(
    node: yaml.MappingNode, at: Location, lines: dict[Location, int], problems: list[Problem], file: Path
) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        here = (*at, key)
        if key in content:
            message = f"the key stands twice; the first is on line {lines[here]}"
            problems.append(Problem(file, key_node.start_mark.line + 1, dotted(here), message))
        lines[here] = key_node.start_mark.line + 1
        content[key] = _construct(value_node, here, lines, problems, file)
    return content


def _scalar(node: yaml.Node, at: Location, problems: list[Problem], file: Path) -> Any:
    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        problems.append(Problem(file, node.start_mark.line + 1, dotted(at), f"not a usable value: {error}"))
        return None
