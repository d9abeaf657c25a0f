"""Scenarios that start from earlier values of an axis, where the axis has no value with so many before it.

A project may have fewer values than what ships with vmatrix: a scenario that ships is then left out of its plans. A
scenario of the project's own that could never be is a mistake (`sense`, `crossref`).
"""

from __future__ import annotations

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


def words_of(scenario: str, axis: str) -> frozenset[str]:
    """Return the words of `before` on an axis as vmatrix ships it, for a scenario that ships; none for others."""
    if scenario not in _names("scenarios.yml", "scenarios", EACH):
        return frozenset()
    shipped = [found for _, found in find(_shipped("axes.yml"), "axes", EACH) if field(found, "name") == axis]
    return frozenset(str(at[-1]) for found in shipped for at, _ in find(found, "values", EACH, "before", EACH))


def _names(file: str, *steps: str | Wild) -> frozenset[str]:
    return frozenset(str(at[-1]) for at, _ in find(_shipped(file), *steps))


def _shipped(file: str) -> Any:
    return _read(packaged_dir() / MATRIX / file)


@cache
def _read(file: Path) -> Any:
    return lines.read(file)[0].content
