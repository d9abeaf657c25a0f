"""One project: its folder, its matrix, the settings it is used with, and the file that each value comes from.

Whoever needs several of them takes this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.files import write_atomically
from harness.paths import MATRIX, enclosing_project, named_project, overlaid, packaged_dir, project_dir
from harness.spec import layers
from harness.spec.layers import NAMES
from harness.spec.lines import Document, Location, printable
from harness.spec.loader import load_spec, load_timeouts
from harness.spec.models import FILES, Spec, Timeouts
from harness.spec.product_files import located
from harness.spec.settings import Settings

TEMPLATES = "vm-templates"


@dataclass(frozen=True)
class Project:
    """What is tested, with what it is tested on: files of a folder, over those that ship with vmatrix.

    directory: that folder.  spec: its matrix.  settings: of vmatrix.yml, the environment and the options.
    """

    directory: Path
    spec: Spec
    settings: Settings

    @staticmethod
    def load(settings: Settings, *, expired_ok: bool = False) -> Project:
        """Load the project that this process works on; BadInput names all mistakes of the matrix.

        Args:
            expired_ok: whether to go on with what has expired: see `load_spec`.
        """
        directory = project_dir()
        return Project(directory, load_spec(matrix_dir(), expired_ok=expired_ok), settings)

    @property
    def timeouts(self) -> Timeouts:
        """Seconds of matrix/timeouts.yml, stretched by the setting timeout_scale."""
        return self.spec.timeouts.scaled(self.settings.timeout_scale)

    @property
    def product(self) -> Path:
        """The folder of the deployment code under test; a packaged product names it by an absolute path."""
        return self.directory / located(self.spec.product, self.directory).directory


def timeouts_of(settings: Settings) -> Timeouts:
    """Return the stretched timeouts, for commands that need no more of the matrix; BadInput when the file is wrong."""
    return load_timeouts(anywhere() / MATRIX).scaled(settings.timeout_scale)


def anywhere() -> Path:
    """Return the project, or outside of one the folder of what ships, for commands that need no project."""
    return named_project() or enclosing_project() or packaged_dir()


def matrix_dir() -> Path:
    """Return the folder of axes.yml and its like; what it lacks is packaged. BadInput outside of a project."""
    return project_dir() / MATRIX


def templates_dir() -> Path:
    """Return the folder of the machines' templates; recipes of disk images lie in images/ below it."""
    return anywhere() / TEMPLATES


def write_in_project(file: Path, text: str) -> None:
    """Write a file of the project, into the project itself: a link in its place is replaced, and not followed.

    Raises:
        BadInput: its folder is a link that leads out of the project, perhaps into vmatrix's own files.
    """
    project, folder = project_dir().resolve(), file.parent.resolve()
    if not folder.is_relative_to(project):
        raise BadInput(
            f"{file} is not written: {file.parent} leads to {folder}, which is not part of the project {project}",
            hint=f"replace the link {file.parent} by a folder; links to single files in it may stay",
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text)


def checks_dir() -> Path:
    """Return the folder of the check suites: the project's, or the packaged one where it has none."""
    return overlaid("tests", "cells")


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
        file = replaced if replaced.is_file() else template
        yield ValueOrigin(f"{TEMPLATES}/{template.name}", file)


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
