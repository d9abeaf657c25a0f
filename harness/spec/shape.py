"""A document against its model: pydantic's errors as problems that a person can act on.

Covers one file by itself: keys, types, ranges. References to other values and files are checked in `crossref`.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.spec.base import WANTED
from harness.spec.lines import Document, Location, Problem, printable

M = TypeVar("M", bound=BaseModel)
LONGEST = 60  # characters of a wrong value that a message repeats
QUOTE = "'"
LISTED = 12  # known words that a message lists; more are not read
MAPPINGS = frozenset({"model_type", "dict_type", "model_attributes_type"})
# What pydantic's kinds of errors say to people who edit YAML; its own messages speak of Python.
WORDING = {
    "missing": "missing; this key is required",
    "string_type": "expected a string",
    "string_too_short": "expected a string that is not empty",
    "string_too_long": "expected at most {max_length} characters",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "tuple_type": "expected a list",
    "too_short": "expected at least {min_length}",
    "path_type": "expected a path",
    "date_type": "expected a date such as 2027-01-31",
    "date_parsing": "expected a date such as 2027-01-31",
    "date_from_datetime_parsing": "expected a date such as 2027-01-31",
    "date_from_datetime_inexact": "expected a date such as 2027-01-31, without a time",
    "union_tag_invalid": "unknown {discriminator} {tag!r}; expected one of {expected_tags}",
    "union_tag_not_found": "missing {discriminator}; it determines the other keys",
}
FREE = frozenset({"vars", "variables", "kubelet_config"})  # keys below which any value is taken as it is
WHOLE = frozenset({"missing", "too_short", "union_tag_invalid", "union_tag_not_found"})  # say all without what is given
# What YAML 1.1 makes another whole number of: 010 is 8, and 1:30 is 90.
OTHER_BASE = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*(:[0-5]?[0-9])+)")
UNQUOTED = (int, float, datetime.date)  # what YAML makes of 1.36 or 2027-01-31 without quotes; bool is an int


def validate(document: Document, model: type[M]) -> tuple[M | None, list[Problem]]:
    """Validate one document against its model."""
    content = document.content if document.content is not None else {}
    misread = misread_scalars(document, FREE)
    wrong = list(misread.values())
    rebased = {
        at: document.problem(at, f"YAML takes {text} for {shown(_at(content, at))}; write that")
        for at, text in document.written.items()
        if at not in misread and OTHER_BASE.fullmatch(text)
    }
    try:
        made = model.model_validate(content)
        wrong += rebased.values()
        return (None, wrong) if wrong else (made, [])
    except ValidationError as error:
        details = [detail for detail in error.errors(include_url=False) if not _follows(detail)]
        others = [detail for detail in details if not _about(_in_document(content, detail), detail, misread)]
        told = {_in_document(content, detail) for detail in others}
        wrong += (problem for at, problem in rebased.items() if at not in told)
        return None, [*wrong, *(_problem(document, model, content, detail) for detail in others)]
    except RecursionError:
        return None, [document.problem((), "nested too deeply")]


def misread_scalars(document: Document, below: frozenset[str] | None = None) -> dict[Location, Problem]:
    """Return what is wrong with the values that YAML takes for other ones than are written, by their place.

    below: the keys below which they stand; None for the whole document.
    """
    return {
        at: document.problem(at, _misread(text, _at(document.content, at)))
        for at, text in document.written.items()
        if below is None or below.intersection(map(str, at[:-1]))
    }


def _about(location: Location, detail: ErrorDetails, misread: Collection[Location]) -> bool:
    """Tell whether an error is about a misread scalar, or about one inside of what a rule of ours refuses."""
    if detail["type"] in ("value_error", "finite_number"):
        return any(at[: len(location)] == location for at in misread)
    return location in misread


def _misread(text: str, value: Any) -> str:
    """Say what YAML 1.1 makes of a scalar, and how to write what was meant."""
    if isinstance(value, datetime.date):
        return f"YAML takes {text} for a date; put it in quotes"
    if isinstance(value, float) and not math.isfinite(value):
        return f"YAML takes {text} for a number without an end; put it in quotes"
    meant = str(value).lower() if isinstance(value, bool) else shown(value)
    return f"YAML takes {text} for {meant}; put it in quotes, or write {meant}"


def _at(content: Any, location: Location) -> Any:
    for part in location:
        content = content[part]
    return content


def _follows(detail: ErrorDetails) -> bool:
    """Tell whether a list is called too short only because of what is wrong inside of it, which is said as well."""
    content = detail["input"]
    least = (detail.get("ctx") or {}).get("min_length", 0)
    return detail["type"] == "too_short" and isinstance(content, list | Mapping) and len(content) >= least


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known word is near to one that is not known, or which there are."""
    choices = list(known)
    near = difflib.get_close_matches(word, choices, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    more = f" and {len(choices) - LISTED} more" if len(choices) > LISTED else ""
    listed = ", ".join(printable(choice) for choice in choices[:LISTED])
    return f"known: {listed}{more}" if choices else "none exist"


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Say that a word is not known, which one is near, and which there are."""
    return f"unknown {what} {shown(word)}; {nearest(word, known)}"


def shown(value: Any) -> str:
    """Render a wrong value for a message: on one line, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python prints
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


def _problem(document: Document, model: type[BaseModel], content: Any, detail: ErrorDetails) -> Problem:
    location = _in_document(content, detail)
    if detail["type"] == "string_type" and location in document.written:
        message = f"expected a string, got {document.written[location]} without quotes; put it in quotes"
        return document.problem(location, message)
    return document.problem(location, _message(model, location, detail))


def _message(model: type[BaseModel], location: Location, detail: ErrorDetails) -> str:
    kind, content = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"unknown key; {nearest(str(location[-1]), keys_at(model, location[:-1])).replace(QUOTE, '')}"
    if kind in MAPPINGS:
        keys = keys_at(model, location)
        expectation = f"expected a mapping with the keys {', '.join(keys)}" if keys else "expected a mapping"
        return f"{expectation}, got {_kind_of(content)}"
    if kind == "string_type" and isinstance(content, UNQUOTED):
        return f"expected a string, got {shown(content)}; put it in quotes"
    if kind in WORDING:
        message = WORDING[kind].format(**(detail.get("ctx") or {}))
        return message if kind in WHOLE else f"{message}, got {_kind_of(content)}"
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        pattern = (detail.get("ctx") or {}).get("pattern", "")
        return f"{WANTED.get(pattern, detail['msg'])}, got {shown(content)}"
    return f"{detail['msg']}, got {_kind_of(content)}"


def _kind_of(content: Any) -> str:
    """Say what stands there: what is longer than a line is not repeated."""
    if isinstance(content, Mapping):
        return "a mapping"
    return "a list" if isinstance(content, list | tuple) else "nothing" if content is None else shown(content)


def _in_document(content: Any, detail: ErrorDetails) -> Location:
    """Return the location as it stands in the document: without pydantic's marks for unions and keys."""
    location: list[str | int] = []
    here = content
    parts = [part for part in detail["loc"] if part != "[key]"]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif isinstance(here, Mapping) and part in here and (last or isinstance(here[part], Mapping | list)):
            if last and isinstance(here, Mapping) and detail["input"] is here and detail["type"] != "missing":
                break
            here = here[part]
        elif not (last and detail["type"] == "missing"):
            continue
        location.append(part)
    return tuple(location)


def keys_at(model: type[BaseModel], location: Location) -> tuple[str, ...]:
    """Return the keys that a model knows at a place, in the model's order."""
    schema = _schema(model)
    places = list(_resolved(schema, schema))
    for part in location:
        places = [inner for place in places for inner in _inside(schema, place, part)]
    return tuple(dict.fromkeys(key for place in places for key in place.get("properties", {})))


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _inside(schema: Mapping[str, Any], place: Mapping[str, Any], part: str | int) -> Iterator[Mapping[str, Any]]:
    """Yield what a schema allows one step further down."""
    if isinstance(part, int):
        inner = place.get("items")
    else:
        named = place.get("properties", {}).get(part)
        inner = named if named is not None else place.get("additionalProperties")
        if inner is None:  # a mapping whose keys follow a pattern
            inner = next(iter(place.get("patternProperties", {}).values()), None)
    if isinstance(inner, Mapping):
        yield from _resolved(schema, inner)


def _resolved(schema: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the object schemas that a reference or a union stands for."""
    if "$ref" in place:
        yield from _resolved(schema, schema["$defs"][place["$ref"].rpartition("/")[2]])
    elif "anyOf" in place or "oneOf" in place:
        for choice in place.get("anyOf", place.get("oneOf", ())):
            yield from _resolved(schema, choice)
    else:
        yield place
