"""The files of a project over those that ship with vmatrix.

A file of the project replaces the packaged one of the same name. With the line `extends: default` it amends it instead.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.paths import MATRIX, packaged_dir, product_file, project_dir
from harness.spec import lines
from harness.spec.amend import DEFAULT, EXTENDS, amended
from harness.spec.declared import EACH, texts
from harness.spec.lines import Document, Location, Problem
from harness.spec.shape import shown

# The places of paths relative to the project, in the files of matrix/: the product's, and globs of files.
PATHS = {
    "product.yml": (("product", "directory"), ("product", "phases", EACH, "paths", EACH)),
    "axes.yml": (("axes", EACH, "values", EACH, "paths", EACH),),
}
IN_PROJECTS = (MATRIX, "vm-templates")  # folders of which a project may have files of its own under the same name


def read(directory: Path, name: str) -> tuple[Document, list[Problem]]:
    """Read a file of a matrix directory as it counts: the project's own, amended or not, or the packaged one.

    Paths that a packaged file names become absolute: they lie in the package, not in the project.
    """
    own, packaged = own_file(directory, name), packaged_dir() / MATRIX / name
    if not packaged.exists() or own == packaged:
        return lines.read(own)
    if not os.path.lexists(own):
        document, problems = lines.read(packaged)
        return _anchored(document, name), problems
    document, problems = lines.read(own)
    if not isinstance(document.content, dict) or EXTENDS not in document.content:
        return document, problems
    if document.content[EXTENDS] != DEFAULT:
        said = f"expected `{DEFAULT}`, got {shown(document.content[EXTENDS])}; remove the key to replace the whole file"
        problems = [*problems, document.problem((EXTENDS,), said)]
    base, broken = lines.read(packaged)
    made, wrong = amended(base, document)
    return _anchored(made, name), [*problems, *broken, *wrong]


def own_file(directory: Path, name: str) -> Path:
    """Return where a matrix directory has its file of a name; the project's product file may be named elsewhere."""
    named = product_file() if name == "product.yml" else None
    if named is not None and same(directory, project_dir() / MATRIX):
        return named
    return packaged_dir() / MATRIX / name if same(directory, packaged_dir() / MATRIX) else directory / name


def is_packaged(file: Path) -> bool:
    """Tell whether a file is one of the matrix that ships with vmatrix."""
    return file.is_relative_to(packaged_dir() / MATRIX)


def same(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one folder."""
    return one.resolve() == other.resolve()


def _anchored(document: Document, name: str) -> Document:
    """Return a document in which the paths that come from the package lead there."""
    content = document.content
    other = name not in PATHS and "/" in name  # a product beside product.yml, whose templates lie in matrix/
    for steps in PATHS["product.yml"] if other else PATHS.get(name, ()):
        for at, path in texts(content, *steps):
            if is_packaged(document.place_of(at)[0]) and (other or not path.startswith(IN_PROJECTS)):
                content = _with(content, at, str(packaged_dir() / path))
    return replace(document, content=content)


def _with(content: Any, at: Location, value: str) -> Any:
    """Return plain data with another value at a location."""
    if not at:
        return value
    if isinstance(content, list):
        number = int(at[0])
        return [*content[:number], _with(content[number], at[1:], value), *content[number + 1 :]]
    return {**content, at[0]: _with(content[at[0]], at[1:], value)}
