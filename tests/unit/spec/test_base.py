"""Docstrings say what keys are, and words what a pattern wants."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import harness.spec.models
from harness.spec.base import WANTED, described
from harness.spec.settings import Settings


@pytest.mark.parametrize(
    ("docstring", "whole", "keys"),
    [
        ("One thing.", "One thing.", {}),
        ("One thing.\n\na: the\n  first.  b: the second", "One thing.", {"a": "The first.", "b": "The second."}),
        ("One.\n\na, b: both.\n\nIn all.", "One.\n\nIn all.", {"a": "Both.", "b": "Both."}),
        ("One.\n\na_b: `x` or y.\n    c: no key.", "One.", {"a_b": "`x` or y. c: no key."}),
        ("Of a: all. b: none.", "Of a: all. b: none.", {}),
    ],
)
def test_an_entry_belongs_to_its_keys(docstring: str, whole: str, keys: dict[str, str]) -> None:
    assert described(docstring, ["a", "b", "a_b"]) == (whole, keys)


def patterns(schema: Any) -> Iterator[str]:
    """Yield the patterns of a schema."""
    if isinstance(schema, dict):
        found = schema.get("pattern")
        yield from (found,) if isinstance(found, str) else ()
        for inner in schema.values():
            yield from patterns(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from patterns(inner)


def models(of: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models of files and settings."""
    for each in of.__subclasses__():
        if each.__module__.startswith("harness.spec"):
            yield each
        yield from models(each)


def test_every_pattern_that_people_write_to_has_words() -> None:
    for module in pkgutil.walk_packages(harness.spec.models.__path__, "harness.spec.models."):
        import_module(module.name)
    found = {pattern for model in models(BaseModel) for pattern in patterns(model.model_json_schema())}
    assert Settings in set(models(BaseModel))
    assert len(found) > 20
    assert found - set(WANTED) == set()


def fields(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of all models of files and settings that a value of a kind is good for, each with its type.

    What more a model asks of a field is seen by `accepts`.
    """
    for module in pkgutil.walk_packages(harness.spec.__path__, "harness.spec."):
        import_module(module.name)
    for model in sorted(set(models(BaseModel)), key=str):
        for name, field in model.model_fields.items():
            whole: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            if kind.__name__ in repr(whole).replace("pathlib._local.", ""):
                yield f"{model.__name__}.{name}", whole


def accepts(name: str, whole: Any, value: object) -> bool:
    """Tell whether a number is made of a value for a field of a type."""
    model, _, field = name.partition(".")
    try:
        if model == Settings.__name__:
            return type(getattr(Settings.model_validate({field: value}), field)) in (int, float)
        return type(TypeAdapter(whole).validate_python(value)) in (int, float)
    except ValidationError:
        return False


def test_no_number_is_a_yes_or_a_no() -> None:
    numbers = [*fields(int), *fields(float)]
    assert {"Settings.max_cpus", "Tier.follow_up", "MeasuredMemory.margin"} <= {name for name, _ in numbers}
    for name, whole in numbers:
        assert not accepts(name, whole, True), name
        assert not accepts(name, whole, False), name


def test_every_path_of_the_settings_may_begin_with_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    paths = {name.removeprefix("Settings.") for name, _ in fields(Path) if name.startswith("Settings.")}
    assert {"runs", "kubeconfig"} <= paths
    for name in paths:
        assert getattr(Settings.model_validate({name: "~/there"}), name) == Path("/home/somebody/there"), name
