"""Products beside product.yml: the files that values of the axis `product` name, in matrix/ like product.yml itself.

Such a product is another way to make the same clusters. So where its file says nothing of them, product.yml holds. A
project whose product.yml names files of its own does not test vmatrix's other products: their values stay out of its
plans, unless it has files of these names itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.paths import MATRIX, packaged_dir
from harness.spec import layers
from harness.spec.amend import amended
from harness.spec.declared import EACH, field, find
from harness.spec.lines import Document, Location, Problem
from harness.spec.models.axes import PRODUCT

SHARED = ("groups", "requires", "vars", "variables", "cluster", "checks")  # of product.yml, for what a file leaves out
ALONE = ("sources", "artifacts", "without_effect")  # of a whole run, so that product.yml alone has them


def read(directory: Path, documents: Mapping[str, Document]) -> tuple[dict[str, Document], list[Problem]]:
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
        file = layers.own_file(directory, name)
        if not os.path.lexists(file):
            if not (packaged_dir() / MATRIX / name).exists():
                problems.append(axes.problem((*at, PRODUCT), f"the file {file} does not exist"))
                continue
            if not layers.is_packaged(base.place_of((PRODUCT, "directory"))[0]):
                continue
        document, wrong = layers.read(directory, name)
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
