"""Scenarios that start from earlier values of an axis, where the axis has no value with so many before it.

A project may have fewer values than what ships with vmatrix: a scenario that ships is then left out of its plans, and
so is a pinned cell that ships and whose value lost what was before it. A scenario or a pinned cell of the project's own
that could never be is a mistake (`sense`, `crossref`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness.paths import MATRIX, packaged_dir
from harness.spec import lines
from harness.spec.declared import EACH, Wild, field, find
from harness.spec.models import Space
from harness.spec.rules import earlier, words


def lacking(space: Space, scenario: str) -> str:
    """Return why no value of an axis has what a scenario starts from; nothing where one has."""
    for phase in space.scenarios[scenario].phases:
        for axis, steps in phase.values.items():
            if not any(earlier(space, axis, value, words(steps)) for value in space.axis(axis).values):
                return f"starts from an earlier {axis} ({', '.join(words(steps))}), which no value has"
    return ""


def left_out(space: Space) -> frozenset[str]:
    """Return the scenarios that ship with vmatrix and that no cell of a matrix can have for that."""
    names = [value.id for value in space.axis("scenario").values]
    found = [name for name in names if lacking(space, name)]
    return frozenset(found) & _names("scenarios.yml", "scenarios", EACH) if found else frozenset()


def lost(space: Space, cell: Mapping[str, str]) -> str:
    """Return why a project's own axes leave out a pinned cell that ships; nothing where they do not.

    Only what starts from earlier values of the axes that ship is left out: a mistake in what ships stays one.
    """
    if not any(raw.items() <= cell.items() for raw in _pinned()):
        return ""
    for phase in space.scenarios[cell["scenario"]].phases:
        for axis, steps in phase.values.items():
            here = earlier(space, axis, space.value(axis, cell[axis]), words(steps))
            if here is None and _ships_earlier(axis, cell[axis], words(steps)):
                return f"starts from an earlier {axis} ({', '.join(words(steps))}), which {cell[axis]} does not have"
    return ""


def _ships_earlier(axis: str, value: str, steps: tuple[str, ...]) -> bool:
    """Return whether a value as it ships has so many others before it."""
    shipped = [found for _, found in find(_shipped("axes.yml"), "axes", EACH) if field(found, "name") == axis]
    before = {str(v["id"]): v.get("before", {}) for found in shipped for _, v in find(found, "values", EACH)}
    at: str | None = value
    for step in steps:
        at = before.get(at, {}).get(step) if at is not None else None
    return at is not None


def words_of(scenario: str, axis: str) -> frozenset[str]:
    """Return the words of `before` on an axis as vmatrix ships it, for a scenario that ships; none for others."""
    if scenario not in _names("scenarios.yml", "scenarios", EACH):
        return frozenset()
    shipped = [found for _, found in find(_shipped("axes.yml"), "axes", EACH) if field(found, "name") == axis]
    return frozenset(str(at[-1]) for found in shipped for at, _ in find(found, "values", EACH, "before", EACH))


def ships(axis: str, word: str) -> bool:
    """Return whether an axis as it ships has a value, or a class of values, of that name."""
    shipped = [found for _, found in find(_shipped("axes.yml"), "axes", EACH) if field(found, "name") == axis]
    values = [value for found in shipped for _, value in find(found, "values", EACH)]
    return any(word in (field(value, "id"), field(value, "class")) for value in values)


@cache
def _pinned() -> tuple[dict[str, Any], ...]:
    """Return the pinned cells that ship."""
    found = (raw for _, raw in find(_shipped("tiers.yml"), "tiers", EACH, "pinned", EACH))
    return tuple(raw for raw in found if isinstance(raw, dict))


def _names(file: str, *steps: str | Wild) -> frozenset[str]:
    return frozenset(str(at[-1]) for at, _ in find(_shipped(file), *steps))


def _shipped(file: str) -> Any:
    return _read(packaged_dir() / MATRIX / file)


@cache
def _read(file: Path) -> Any:
    return lines.read(file)[0].content
