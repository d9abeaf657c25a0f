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
    places = [found["loc"] for found in errors]
    inner = [
        found
        for found in errors
        if not any(len(place) > len(found["loc"]) and place[: len(found["loc"])] == found["loc"] for place in places)
    ]
    return [_in_words(found) for found in inner]


def _in_words(error: dict[str, Any]) -> SpecMistake:
    """Return one mistake in the words of the API server where it has some."""
    field = path_of("", *error["loc"])
    given, context = json.dumps(error.get("input"), default=str), error.get("ctx", {})
    if error["type"] == "missing":
        return SpecMistake(field, "Required value", "set it")
    if error["type"] == "literal_error":
        choices = ", ".join(f'"{word}"' for word in re.findall(r"'([^']*)'", context["expected"]))
        return SpecMistake(field, f"Unsupported value: {given}", f"supported values: {choices}")
    if error["type"] == "extra_forbidden":
        return SpecMistake(field, "unknown field", "remove it, or correct its name")
    if error["type"] == "string_pattern_mismatch":
        return SpecMistake(field, f"Invalid value: {given}", f"{field} in body should match '{context['pattern']}'")
    return SpecMistake(field, f"Invalid value: {given}", error["msg"])


def path_of(path: str, *fields: str | int) -> str:
    """Return the path of a field as the API server writes it: spec.machineSets[0].roles."""
    for field in fields:
        path += f"[{field}]" if isinstance(field, int) else f".{field.removeprefix('.')}" if field else ""
    return path.removeprefix(".")
