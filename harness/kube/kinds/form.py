"""What is wrong with the form of an object: types, patterns, choices, unknown fields; in the API server's own words."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError


@dataclass(frozen=True)
class SpecMistake:
    """One mistake in an object: the field, what is wrong with it, and what to write instead."""

    field: str
    message: str
    remedy: str

    @property
    def text(self) -> str:
        """Return the mistake as the API server words it, and as `Accepted=False` shows it."""
        return f"{self.field}: {self.message}: {self.remedy}"


def mistakes_of_form(error: ValidationError) -> list[SpecMistake]:
    """Return what pydantic refuses; not what it says of a list because of the list's entries."""
    errors: list[dict[str, Any]] = [dict(found) for found in error.errors(include_url=False)]
    around = {found["loc"][:length] for found in errors for length in range(len(found["loc"]))}
    return [_in_words(found) for found in errors if found["loc"] not in around]


def _in_words(error: dict[str, Any]) -> SpecMistake:
    """Return one mistake in the words of the API server where it has some."""
    field = path_of(*error["loc"])
    given, context = json.dumps(error.get("input"), default=str), error.get("ctx", {})
    match error["type"]:
        case "missing":
            return SpecMistake(field, "Required value", "set it")
        case "literal_error":
            choices = ", ".join(f'"{word}"' for word in re.findall(r"'([^']*)'", context["expected"]))
            return SpecMistake(field, f"Unsupported value: {given}", f"supported values: {choices}")
        case "extra_forbidden":
            return SpecMistake(field, "unknown field", "remove it, or correct its name")
        case "string_pattern_mismatch":
            message = f"{field} in body should match '{context['pattern']}'"
        case _:
            message = error["msg"]
    return SpecMistake(field, f"Invalid value: {given}", message)


def path_of(*fields: str | int) -> str:
    """Return the path of a field as the API server writes it: spec.machineSets[0].roles."""
    path = ""
    for field in fields:
        path += f"[{field}]" if isinstance(field, int) else f".{field.removeprefix('.')}" if field else ""
    return path.removeprefix(".")
