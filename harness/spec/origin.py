"""Which file each value of a matrix comes from: the project's own, or the packaged one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.paths import packaged_dir
from harness.spec import layers
from harness.spec.amend import NAMES
from harness.spec.lines import Document, Location, printable
from harness.spec.models import FILES
from harness.spec.project import TEMPLATES

LISTED = 2  # the level that is listed whatever file it comes from: what stands below the file's key
VALUES = "values"  # of an axis: one level deeper, and what people look for


@dataclass(frozen=True)
class ValueOrigin:
    """Where one value comes from. line: 0 for a file as a whole."""

    value: str
    file: Path
    line: int = 0


def origins(project: Path) -> Iterator[ValueOrigin]:
    """Yield the origin of every entry of matrix/*.yml, of each value in it from another file, and of each template.

    Files with mistakes are read as far as they go.
    """
    for name in FILES:
        document, _ = layers.read(project / "matrix", name)
        yield from _below(document, document.content, (), "", None)
    for template in sorted((packaged_dir() / TEMPLATES).glob("*.j2")):
        replaced = project / TEMPLATES / template.name
        found = replaced if replaced.is_file() else template
        yield ValueOrigin(f"{TEMPLATES}/{template.name}", found)


def files_used(project: Path) -> Iterator[tuple[str, str]]:
    """Yield each file of matrix/, and whether the project has its own, amends the packaged one, or uses that."""
    for name in FILES:
        document, _ = layers.read(project / "matrix", name)
        if not layers.own_file(project / "matrix", name).exists():
            yield name, "packaged"
        else:
            yield name, f"amends the packaged one: {document.file}" if document.files else str(document.file)


def _below(document: Document, content: Any, at: Location, label: str, parent: Path | None) -> Iterator[ValueOrigin]:
    """Yield a value, if it is to be listed, and what lies below it."""
    place = document.place_of(at)
    another = parent is not None and place[0] != parent
    if len(at) == LISTED or VALUES in at[-2:-1] or another:
        yield ValueOrigin(label, *place)
    for key, inner in _inside(content):
        step = _step(content, key, inner)
        yield from _below(document, inner, (*at, key), f"{label}{step}" if label else step[1:], place[0])


def _inside(content: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(content, Mapping):
        yield from content.items()
    elif isinstance(content, list) and any(isinstance(item, Mapping) for item in content):
        yield from enumerate(content)


def _step(content: Any, key: str | int, inner: Any) -> str:
    """Return a step of a label: the key, or for an entry of a list its name, or else its number."""
    if isinstance(content, Mapping):
        return f".{printable(str(key))}"
    name = next((inner[n] for n in NAMES if isinstance(inner, Mapping) and isinstance(inner.get(n), str)), key)
    return f"[{printable(str(name))}]"
