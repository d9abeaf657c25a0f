"""Every field of every kind refuses what it cannot be, by its class: type, choice, pattern, bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from harness.kube.kinds.page import mistakes_of_form
from harness.operator.api.crds import KINDS
from tests.unit.operator.api.objects import Json

TYPES: dict[str, tuple[Any, ...]] = {
    "string": (7, [], {"a": 1}),
    "integer": ("many", 1.5, []),
    "boolean": ("maybe", 7),
    "array": ("x", 7, {"a": 1}),
    "object": ("x", 7, []),
}
TEXTS = ("", " ", "-x", "a\nb", "{{ x }}", "nothing of the kind")


def leaves(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield each field of a schema with its path; `0` is the first entry of a list."""
    if schema.get("type") == "object" and "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from leaves(inner, (*path, name))
    else:
        yield path, schema
    if schema.get("type") == "array":
        yield from leaves(schema["items"], (*path, "0"))


def wrong(schema: Json) -> list[Any]:
    """Return a value for each way in which a field of a schema can be wrong."""
    values = [*TYPES[schema["type"]]]
    if (bound := schema.get("minimum")) is not None:
        values.append(bound - 1)
    if (bound := schema.get("maximum")) is not None:
        values.append(bound + 1)
    if "enum" in schema:
        values += ["no such choice", ""]
    if (pattern := schema.get("pattern")) is not None:
        bad = [text for text in TEXTS if re.search(pattern, text) is None]
        assert bad, f"every text fits {pattern}"
        values += bad
    if (longest := schema.get("maxLength")) is not None:
        values.append("a" * (longest + 1))
    if "maxItems" in schema and schema["items"].get("type") == "string":
        values.append([f"a{number}" for number in range(schema["maxItems"] + 1)])
    return values


def placed(path: tuple[str, ...], value: Any) -> Any:
    """Return an object that has a value at a path, and nothing else."""
    for step in reversed(path):
        value = [value] if step == "0" else {step: value}
    return value


SPECS = {
    kind.resource.kind: (kind.model, schema["properties"]["spec"])
    for kind in KINDS
    for schema in [kind.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]]
    if "spec" in schema["properties"]
}
FIELDS = [(kind, path, schema) for kind, (_, spec) in SPECS.items() for path, schema in leaves(spec)]


def shown(path: tuple[str, ...]) -> str:
    """Return a path as mistakes name it."""
    return ".".join(("spec", *path)).replace(".0", "[0]")


def test_every_kind_with_a_spec_is_walked() -> None:
    kinds = {
        "ClusterDeployment",
        "MachineSet",
        "Machine",
        "EtcdBackup",
        "EtcdCluster",
        "EtcdPeer",
        "EtcdRestore",
        "Delivery",
        "ClusterNetworkPool",
        "ClusterUser",
    }
    assert set(SPECS) == kinds
    assert len(FIELDS) > 120


@pytest.mark.parametrize(
    ("kind", "path", "schema"), FIELDS, ids=[f"{kind}-{'.'.join(path)}" for kind, path, _ in FIELDS]
)
def test_a_field_refuses_what_it_cannot_be_and_is_named(kind: str, path: tuple[str, ...], schema: Json) -> None:
    model, _ = SPECS[kind]
    for value in wrong(schema):
        with pytest.raises(ValidationError) as refused:
            model.model_validate({"metadata": {"name": "x", "namespace": "ns"}, "spec": placed(path, value)})
        fields = [mistake.field for mistake in mistakes_of_form(refused.value)]
        assert any(field.startswith(shown(path)) for field in fields), (value, fields)


@pytest.mark.parametrize("kind", SPECS)
def test_a_field_that_is_misspelt_is_refused_at_every_depth(kind: str) -> None:
    model, spec = SPECS[kind]
    parents = {path[:-1] for path, _ in leaves(spec) if path[-1] != "0"}
    assert len(parents) > 1 or kind in ("EtcdBackup", "EtcdPeer", "EtcdRestore")
    for parent in parents:
        body = {"metadata": {"name": "x", "namespace": "ns"}, "spec": placed((*parent, "noSuchField"), 1)}
        with pytest.raises(ValidationError) as refused:
            model.model_validate(body)
        fields = [mistake.field for mistake in mistakes_of_form(refused.value)]
        assert shown((*parent, "noSuchField")) in fields, parent
