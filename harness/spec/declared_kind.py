"""What a product of kind `declared` must have, on the plain data of product.yml: templates that are there and parse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.paths import MATRIX, packaged_dir
from harness.reading import read_text
from harness.spec.ansible_kind import is_there
from harness.spec.declared import EACH, texts
from harness.spec.lines import Finding, below


def edit(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    """Find a phase that edits nothing, or applies what is not there."""
    if phase.get("apply") is None and phase.get("delete") is not True:
        yield ("apply",), "missing; a phase has `apply: TEMPLATE`, `delete: true`, or both"
    for key in ("until", "confirm"):
        if phase.get("apply") is None and phase.get(key) is not None:
            yield (key,), "there is nothing to wait for in a phase that applies nothing; add `apply: TEMPLATE`"
    for at, name in texts(phase, "apply"):
        yield from below(at, _template(name, directory))


def options(product: Any, directory: Path) -> Iterator[Finding]:
    """Find a product that does not say which object it is about, and files to install that are not there."""
    if isinstance(product, Mapping) and product.get("declared") is None:
        yield ("declared",), "missing; a product of kind declared says here which object it edits (docs/product.md)"
    for where in ("cluster", "namespace"):
        for at, name in texts(product, "declared", "install", where, EACH):
            yield from below(at, _template(name, directory))
    for at, name in texts(product, "declared", "makes", "apply"):
        yield from below(at, _template(name, directory))


def _template(name: str, directory: Path) -> Iterator[Finding]:
    file = directory / name
    if not is_there(file.is_file):
        yield (), f"the file {file} does not exist"
        return
    if file.suffix != ".j2" or file.is_relative_to(packaged_dir() / MATRIX):  # those are parsed by our tests
        return
    try:
        wrong = _mistake(read_text(file))
    except BadInput as error:
        yield (), error.summary
        return
    if wrong:
        yield (), f"{file}:{wrong}"


@cache
def _mistake(text: str) -> str:
    """Return the line of a template and what is wrong there, "" for one that can be read."""
    import jinja2  # which most commands need for nothing else

    try:
        jinja2.Environment(autoescape=False).parse(text)  # noqa: S701 - objects, no HTML
    except jinja2.TemplateSyntaxError as error:
        return f"{error.lineno}: not a template: {error.message}"
    return ""
