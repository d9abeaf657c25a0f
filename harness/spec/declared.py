"""The words that the files of matrix/ declare, read leniently: a mistake in one place must not hide one in another.

Everything here works on plain data of any shape and yields what is well-formed; `shape` reports what is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from harness.spec.base import Condition, OfClass, UnlikeClass
from harness.spec.lines import Document, Location
from harness.spec.rules import values_named

M = TypeVar("M", bound=BaseModel)
CONDITION: TypeAdapter[Condition] = TypeAdapter(Condition)


class Wild(Enum):
    """Stands for every item of a list, or every value of a mapping, in a search."""

    EACH = "*"


EACH = Wild.EACH


def find(content: Any, *steps: str | Wild) -> Iterator[tuple[Location, Any]]:
    """Yield what lies at the end of steps, with its location; nothing where the content has another shape."""
    if not steps:
        yield (), content
        return
    for key, inner in _inside(content, steps[0]):
        for at, inner_value in find(inner, *steps[1:]):
            yield (key, *at), inner_value


def _inside(content: Any, step: str | Wild) -> Iterator[tuple[str | int, Any]]:
    if isinstance(content, Mapping):
        if step is EACH:
            yield from content.items()
        elif step in content:
            yield str(step), content[step]
    elif isinstance(content, list) and step is EACH:
        yield from enumerate(content)


def texts(content: Any, *steps: str | Wild) -> Iterator[tuple[Location, str]]:
    """Yield the texts that lie at the end of steps."""
    return ((at, text) for at, text in find(content, *steps) if isinstance(text, str))


def field(content: Any, name: str) -> str | None:
    """Return the text under a key, None when there is none."""
    text = content.get(name) if isinstance(content, Mapping) else None
    return text if isinstance(text, str) else None


def parsed(model: type[M], content: Any) -> M | None:
    """Return content as a model, None where it is none."""
    try:
        return model.model_validate(content)
    except (ValidationError, RecursionError):
        return None


def condition(content: Any) -> Condition | None:
    """Return content as a condition, None where it is none."""
    try:
        return CONDITION.validate_python(content)
    except (ValidationError, RecursionError):
        return None


@dataclass(frozen=True)
class DeclaredAxis:
    """The values of an axis, their classes, the words of their `before`, and its default."""

    values: tuple[str, ...]
    classes: tuple[str, ...]
    words: tuple[str, ...]
    default: str | None = None

    def unknown_in(self, condition_of_rule: Condition) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Return each word of a condition that is not declared: what it should be, the word, what there is."""
        if isinstance(condition_of_rule, OfClass | UnlikeClass):
            what, known = "class", self.classes
        else:
            what, known = "value", self.values
        return tuple((what, word, known) for word in values_named(condition_of_rule) if word not in known)


@dataclass(frozen=True)
class Declared:
    """What can be referred to; None for what an unreadable file would have said.

    every_check: whether every check must be able to judge the product.
    removed: where the project removes values, as FILE:LINE by axis and id.
    """

    axes: Mapping[str, DeclaredAxis] | None
    topologies: tuple[str, ...] | None
    scenarios: tuple[str, ...] | None
    phases: tuple[str, ...] | None
    images: tuple[str, ...] | None
    network_plugins: tuple[str, ...] | None
    every_check: bool
    removed: Mapping[tuple[str, str], str] = field_of(default_factory=dict)


REQUIRE_ALL = ("product", "checks", "require_all")


def declared(documents: Mapping[str, Document]) -> Declared:
    """Collect what the files declare."""
    axes = documents["axes.yml"].content
    return Declared(
        axes=_axes(axes) if _has(axes, "axes", list) else None,
        topologies=_keys(documents["topologies.yml"].content, "topologies"),
        scenarios=_keys(documents["scenarios.yml"].content, "scenarios"),
        phases=_keys((documents["product.yml"].content or {}), "product", "phases"),
        images=_images(documents["images.yml"].content),
        network_plugins=_keys(documents["network_plugins.yml"].content, "cluster_network_plugins"),
        every_check=any(is_required is True for _, is_required in find(documents["product.yml"].content, *REQUIRE_ALL)),
    )


def slug_of(value: Any) -> str | None:
    """Return what stands in cell ids for a value: its slug, or its id's letters and digits."""
    slug, name = field(value, "slug"), field(value, "id")
    return slug if slug is not None else re.sub(r"[^a-z0-9]", "", name) if name is not None else None


def _has(content: Any, key: str, kind: type) -> bool:
    return isinstance(content, Mapping) and isinstance(content.get(key), kind)


def _axes(content: Any) -> dict[str, DeclaredAxis]:
    axes_by_name: dict[str, DeclaredAxis] = {}
    for _, axis in find(content, "axes", EACH):
        name = field(axis, "name")
        if name is not None:
            axes_by_name.setdefault(
                name,
                DeclaredAxis(
                    values=tuple(word for _, word in texts(axis, "values", EACH, "id")),
                    classes=tuple(dict.fromkeys(word for _, word in texts(axis, "values", EACH, "class"))),
                    words=tuple(dict.fromkeys(str(at[-1]) for at, _ in find(axis, "values", EACH, "before", EACH))),
                    default=field(axis, "default"),
                ),
            )
    return axes_by_name


def _keys(content: Any, *steps: str) -> tuple[str, ...] | None:
    mappings = [inner for _, inner in find(content, *steps) if isinstance(inner, Mapping)]
    return tuple(mappings[0]) if mappings else None


def _images(content: Any) -> tuple[str, ...] | None:
    return tuple(name for _, name in texts(content, "images", EACH, "name")) if _has(content, "images", list) else None
