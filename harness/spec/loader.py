"""Load matrix/*.yml into a Spec, or say everything that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.errors import BadInput
from harness.paths import packaged_dir
from harness.spec import crossref, dates, layers, lines, overlooked, products, sense
from harness.spec.models import FILES as FILES
from harness.spec.models import Product, Space, Spec, Timeouts
from harness.spec.models.axes import completed
from harness.spec.shape import validate as validate

M = TypeVar("M", bound=BaseModel)


def load_spec(directory: Path, *, today: date | None = None) -> Spec:
    """Load a matrix directory, over the packaged files.

    Args:
        directory: of a project, which need not have one.
        today: the day by which ends of support and of quarantine are judged; the present one in UTC without it.

    Raises:
        BadInput: one line `file:line: path: what is wrong; what would be right` per error, in all files.
    """
    problems: list[lines.Problem] = []
    parts: dict[str, Any] = {}
    documents: dict[str, lines.Document] = {}
    for name, model in FILES.items():
        documents[name], found = layers.read(directory, name)
        if documents[name].content is not None or not found:
            parsed, wrong = validate(documents[name], model)
            found = found + wrong
            if parsed is not None:
                parts.update(dict(parsed))
        problems += found
    others, found = products.read(directory, documents)
    overlooked.refuse_matrix(directory, {*FILES, *(document.file.name for document in others.values())})
    parts["products"], wrong = _products(others)
    problems += [*found, *wrong, *crossref.check(documents, directory, others)]
    space = _space(parts, {problem.file.name for problem in problems})
    if space is not None:
        problems += sense.check(space, documents)
    problems += dates.check(documents, today if today is not None else datetime.now(UTC).date())
    if problems:
        raise refuse(problems, own=directory)
    parts["tiers"] = {
        name: tier.model_copy(update={"pinned": tuple(completed(parts["axes"], cell) for cell in tier.pinned)})
        for name, tier in parts["tiers"].items()
    }
    return Spec.model_construct(**{name: part for name, part in parts.items() if name in Spec.model_fields})


def _products(documents: Mapping[str, lines.Document]) -> tuple[dict[str, Product], list[lines.Problem]]:
    """Return the products beside product.yml by the values of the axis, and what is wrong with their files."""
    made: dict[str, Product] = {}
    problems: list[lines.Problem] = []
    for value, document in documents.items():
        parsed, wrong = validate(document, FILES["product.yml"])
        problems += wrong
        if parsed is not None:
            made[value] = dict(parsed)["product"]
    return made, problems


def load_timeouts(directory: Path) -> Timeouts:
    """Load timeouts.yml of a matrix directory, whatever is wrong with other files; BadInput as `load_spec`."""
    document, problems = layers.read(directory, "timeouts.yml")
    parsed, wrong = validate(document, FILES["timeouts.yml"])
    if parsed is None or problems:
        raise refuse(problems or wrong, own=directory)
    found: Timeouts = dict(parsed)["timeouts"]
    return found


def load_layered(directory: Path, name: str, model: type[M]) -> M:
    """Load one file of a matrix directory as it counts, over the packaged one. Raises BadInput as `load_file`."""
    return _checked(*layers.read(directory, name), model)


def load_file(file: Path, model: type[M]) -> tuple[M, lines.Document]:
    """Load one file by its model. Raises BadInput with one line per error: file and line."""
    document, problems = lines.read(file)
    return _checked(document, problems, model), document


def _checked(document: lines.Document, problems: list[lines.Problem], model: type[M]) -> M:
    parsed: M | None = None
    if not problems:
        parsed, problems = validate(document, model)
    if parsed is None:
        raise refuse(problems)
    return parsed


def _space(parts: Mapping[str, Any], wrong: set[str]) -> Space | None:
    """Return what cells there may be; None when one of the files that say so has an error."""
    names = tuple(Space.model_fields)
    if wrong & {f"{name}.yml" for name in names}:
        return None
    return Space.model_construct(**{name: parts[name] for name in names})


def refuse(problems: list[lines.Problem], *, own: Path | None = None) -> BadInput:
    """Return the error that says all problems at once; `own` is the project's matrix directory, where it matters."""
    ordered = sorted(dict.fromkeys(problems), key=lambda p: (str(p.file), p.line))
    count = "1 error" if len(ordered) == 1 else f"{len(ordered)} errors"
    files = ", ".join(dict.fromkeys(str(p.file) for p in ordered))
    hint = "fix the lines above and try again"
    if own is not None and any(layers.is_packaged(p.file) and p.file.parent != own for p in ordered):
        hint += f"; what {packaged_dir()} has is vmatrix's own: replace or amend it with a file of the same name"
        hint += f" in {own} (docs/projects.md)"
    return BadInput(f"{count} in {files}:\n" + "\n".join(str(p) for p in ordered), hint=hint)
