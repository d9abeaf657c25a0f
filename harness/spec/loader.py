"""Load matrix/*.yml into a Spec, or say everything that is wrong with it at once."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.errors import BadInput
from harness.spec import crossref, lines
from harness.spec.models import (
    AxesFile,
    ConstraintsFile,
    InfrasFile,
    Model,
    ProductFile,
    QuarantineFile,
    ScenariosFile,
    Spec,
    TiersFile,
    TimeoutsFile,
    TopologiesFile,
)

FILES: dict[str, type[Model]] = {
    "axes.yml": AxesFile,
    "topologies.yml": TopologiesFile,
    "scenarios.yml": ScenariosFile,
    "tiers.yml": TiersFile,
    "timeouts.yml": TimeoutsFile,
    "product.yml": ProductFile,
    "constraints.yml": ConstraintsFile,
    "infras.yml": InfrasFile,
    "quarantine.yml": QuarantineFile,
}
M = TypeVar("M", bound=BaseModel)


def load_spec(directory: Path) -> Spec:
    """Load a matrix directory.

    Raises:
        BadInput: one line `file:line: path: what is wrong; what would be right` per mistake, in all files.
    """
    if not directory.is_dir():
        raise BadInput(
            f"there is no matrix in {directory.parent}",
            hint="run vmatrix from its checkout, or set VMATRIX_PROJECT to the checkout",
        )
    problems: list[lines.Problem] = []
    parts: dict[str, Any] = {}
    documents: dict[str, lines.Document] = {}
    for name, model in FILES.items():
        document, found = lines.read(directory / name)
        problems += found
        documents[name] = document
        if not found:
            parsed, wrong = validate(document, model)
            problems += wrong
            if parsed is not None:
                parts.update(dict(parsed))
    if not problems:
        spec = Spec(**parts)
        problems += crossref.check(spec, documents, directory)
        if not problems:
            return spec
    raise refuse(problems)


def refuse(problems: list[lines.Problem]) -> BadInput:
    """Return the error that says all problems at once."""
    ordered = sorted(problems, key=lambda p: (str(p.file), p.line))
    count = "1 mistake" if len(ordered) == 1 else f"{len(ordered)} mistakes"
    files = ", ".join(dict.fromkeys(str(p.file) for p in ordered))
    return BadInput(
        f"{count} in {files}:\n" + "\n".join(str(p) for p in ordered), hint="mend the named lines and try again"
    )


def validate(document: lines.Document, model: type[M]) -> tuple[M | None, list[lines.Problem]]:
    """Validate one document against its model."""
    try:
        return model.model_validate(document.content if document.content is not None else {}), []
    except ValidationError as error:
        return None, [_problem(document, model, detail) for detail in error.errors(include_url=False)]


def _problem(document: lines.Document, model: type[BaseModel], detail: ErrorDetails) -> lines.Problem:
    location = tuple(detail["loc"])
    message = detail["msg"]
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), sorted(_known_keys(model)), n=1)
        message = "unknown key" + (f"; did you mean {near[0]}?" if near else "")
    elif detail["type"] == "missing":
        message = "missing; this key is required"
    elif detail["type"] in {"string_pattern_mismatch", "literal_error", "value_error"}:
        message = f"{message}, got {detail['input']!r}" if not isinstance(detail["input"], tuple | list) else message
    return lines.Problem(document.file, document.line_of(location), lines.dotted(location), message)


def _known_keys(model: type[BaseModel]) -> set[str]:
    """Return every key that a model or a model inside it knows."""
    schema = model.model_json_schema()
    keys: set[str] = set()
    for part in [schema, *schema.get("$defs", {}).values()]:
        keys.update(part.get("properties", {}))
    return keys
