"""The files of a project over those that ship with vmatrix.

A file of the project replaces the packaged one of the same name. With the line `extends: default` it amends it instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.paths import MATRIX, packaged_dir, product_file, project_dir
from harness.spec import lines
from harness.spec.amend import DEFAULT, EXTENDS, amended
from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Document, Location, Problem
from harness.spec.models.axes import PRODUCT
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


SHARED = ("groups", "requires", "vars", "variables", "cluster", "checks")  # of product.yml, for what a file leaves out
ALONE = ("sources", "artifacts", "without_effect")  # of a whole run, so that product.yml alone has them


def read_products(directory: Path, documents: Mapping[str, Document]) -> tuple[dict[str, Document], list[Problem]]:
    """Read the products of a matrix directory by the values that name them, and find what is wrong with that.

    Args:
        documents: axes.yml and product.yml, by file name.
    """
    axes, base = documents["axes.yml"], documents["product.yml"]
    found: dict[str, Document] = {}
    problems: list[Problem] = []
    for at, value, name, said in _named(axes.content):
        if said:
            problems.append(axes.problem((*at, PRODUCT), said))
            continue
        file = own_file(directory, name)
        if not os.path.lexists(file):
            if not (packaged_dir() / MATRIX / name).exists():
                problems.append(axes.problem((*at, PRODUCT), f"the file {file} does not exist"))
                continue
            if not is_packaged(base.place_of((PRODUCT, "directory"))[0]):
                continue
        document, wrong = read(directory, name)
        problems += wrong
        if document.content is not None:
            problems += _of_all(document)
            found[value], wrong = _over(base, document)
            problems += wrong
    return found, problems


def _named(axes: Any) -> Iterator[tuple[Location, str, str, str]]:
    """Yield where each value is that has a product, its id, the file, and what is wrong with having one."""
    for at, axis in find(axes, "axes", EACH):
        for inner, value in find(axis, "values", EACH):
            name, known = field(value, PRODUCT), field(value, "id") or ""
            if name is None:
                continue
            said = f"only values of the axis {PRODUCT} may have one; remove it"
            if field(axis, "name") == PRODUCT:
                is_default = field(axis, "default") == known
                said = "the axis' default is what product.yml describes; remove this key" if is_default else ""
            yield (*at, *inner), known, name, said


def _of_all(document: Document) -> Iterator[Problem]:
    for key in ALONE:
        for at, _ in find(document.content, PRODUCT, key):
            yield document.problem(at, "belongs to product.yml, for all products of a run; move it there")


def _over(base: Document, document: Document) -> tuple[Document, list[Problem]]:
    """Return a product with what product.yml says where its own file says nothing."""
    given = next((inner for _, inner in find(base.content, PRODUCT) if isinstance(inner, Mapping)), None)
    shared = {key: inner for key, inner in (given or {}).items() if key in SHARED}
    if not isinstance(document.content, Mapping):
        return document, []
    return amended(Document(base.file, {PRODUCT: shared}, base.lines, base.files), document)
