"""The fields of kinds as tables for a page of documentation, made from their definitions.

A table's rows are what a person may write or read: every field with its default and its meaning. The fields of an
object inside of the spec have a table of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from harness.kube.failures import Json
from harness.kube.kinds.models import Schema

BEGIN, END = "<!-- fields: {} -->\n", "<!-- end of fields -->"
MOST_CHOICES = 4  # that fit into a line; the text around the table tells of more
HEADS = {"spec": "| field | default | meaning |\n|---|---|---|", "status": "| field | meaning |\n|---|---|"}


def with_fields(page: str, crds: Iterable[Json]) -> str:
    """Return a page with the tables between its marks made again from the definitions."""
    for crd in crds:
        begin = BEGIN.format(crd["spec"]["names"]["kind"])
        before, marker, after = page.partition(begin)
        if marker:
            text = "\n\n".join(_tables(crd))
            page = f"{before}{begin}{text}\n{END}{after.partition(END)[2]}"
    return page


def _tables(crd: Json) -> Iterator[str]:
    (version,) = crd["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for top, head in HEADS.items():
        schema = properties.get(top, {"properties": {}})
        plain = [_row(name, inner, schema, top) for name, inner in schema["properties"].items() if not _inside(inner)]
        if plain:
            yield "\n".join([f"`{top}`:\n", head, *plain])
        for name, inner in schema["properties"].items():
            if _inside(inner):
                mark = "[]" if "items" in inner else ""
                rows = _rows(inner.get("items", inner), "", top)
                yield "\n".join([f"`{top}.{name}{mark}`: {_text(inner)}\n", head, *rows])


def _inside(schema: Schema) -> bool:
    return "properties" in schema.get("items", schema)


def _rows(schema: Schema, path: str, top: str) -> Iterator[str]:
    for name, inner in schema["properties"].items():
        if _inside(inner):
            yield from _rows(inner.get("items", inner), f"{path}{name}{'[]' if 'items' in inner else ''}.", top)
        else:
            yield _row(name, inner, schema, top, path)


def _row(name: str, schema: Schema, around: Schema, top: str, path: str = "") -> str:
    default = f"`{_literal(schema['default'])}`" if "default" in schema else ""
    if name in around.get("required", ()):
        default = "required"
    choices, text = schema.get("items", schema).get("enum", ()), _text(schema)
    if 1 < len(choices) <= MOST_CHOICES and not all(choice in text for choice in choices):
        text += f"; one of {', '.join(f'`{choice}`' for choice in choices)}"
    cells = [f"`{path}{name}`", *([default] if top == "spec" else []), text]
    return f"| {' | '.join(cells)} |"


def _literal(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(schema: Schema) -> str:
    text: str = schema["description"]
    return text.removesuffix(".")


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
    errors: list[dict[str, Any]] = [dict(mistake) for mistake in error.errors(include_url=False)]
    around = {mistake["loc"][:length] for mistake in errors for length in range(len(mistake["loc"]))}
    return [_in_words(mistake) for mistake in errors if mistake["loc"] not in around]


def _in_words(error: dict[str, Any]) -> SpecMistake:
    """Return one mistake in the words of the API server where it has some."""
    field = path_of(*error["loc"])
    shown, context = json.dumps(error.get("input"), default=str), error.get("ctx", {})
    match error["type"]:
        case "missing":
            return SpecMistake(field, "Required value", "set it")
        case "literal_error":
            choices = ", ".join(f'"{word}"' for word in re.findall(r"'([^']*)'", context["expected"]))
            return SpecMistake(field, f"Unsupported value: {shown}", f"supported values: {choices}")
        case "extra_forbidden":
            return SpecMistake(field, "unknown field", "remove it, or correct its name")
        case "string_pattern_mismatch":
            message = f"{field} in body should match '{context['pattern']}'"
        case _:
            message = error["msg"]
    return SpecMistake(field, f"Invalid value: {shown}", message)


def path_of(*fields: str | int) -> str:
    """Return the path of a field as the API server writes it: spec.machineSets[0].roles."""
    path = ""
    for field in fields:
        path += f"[{field}]" if isinstance(field, int) else f".{field.removeprefix('.')}" if field else ""
    return path.removeprefix(".")
