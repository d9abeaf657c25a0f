"""The schemas accept whole files and files that amend, and see mistakes in both."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.spec.schemas import schemas


def errors(name: str, text: str) -> list[Any]:
    """Return what an editor would mark."""
    schema = json.loads(schemas()[name])
    Draft202012Validator.check_schema(schema)
    return list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("axes", "axes: [{name: os, values: [{id: debian-13, vars: {a: 1}}]}]"),
        ("axes", "axes: [{name: os, values: [{id: debian-13, remove: true}, {id: x, support: null}]}]"),
        ("tiers", "tiers: {full: null, smoke: {budget: {cells: 2}}}"),
        ("tiers", "tiers: {smoke: {suites: [nodes], cover: {strength: 2}, where: {os: {not: x}}}}"),
        ("topologies", "topologies: {cp1-w1: {machines: [{name: w, memory: 4Gi}]}}"),
        ("timeouts", "timeouts: {ssh: 10}"),
        ("product", "product: {directory: deploy, phases: {reset: null, deploy: {playbook: site.yml}}}"),
        ("constraints", "constraints: [{why: it is so, then: {os: debian-13}}]"),
        ("images", "images: [{name: debian-13, size_gib: 20}]"),
        ("infras", "infras: {embedded: {offers: [internet]}}"),
        ("quarantine", ""),
    ],
)
def test_a_file_that_amends_fits(name: str, text: str) -> None:
    assert errors(name, f"extends: default\n{text}\n") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("axes", "axes: [{name: os, lable: x}]"),
        ("axes", "axes: [{label: no name}]"),
        ("tiers", "tiers: {smoke: {budget: {cells: many}}}"),
        ("timeouts", "timeouts: {shh: 10}"),
        ("scenarios", "scenarios: {fresh: {phases: [{then: no phase}]}}"),
        ("axes", "axes: [{name: os, remove: maybe}]"),
    ],
)
def test_a_mistake_in_a_file_that_amends_is_seen(name: str, text: str) -> None:
    assert errors(name, f"extends: default\n{text}\n")


def undescribed(schema: Any, at: str = "") -> list[str]:
    """Return the properties in a schema that have no description of their own."""
    if isinstance(schema, list):
        return [found for number, one in enumerate(schema) for found in undescribed(one, f"{at}/{number}")]
    if not isinstance(schema, dict):
        return []
    properties = schema.get("properties", {})
    here = [f"{at}.{name}" for name, one in properties.items() if not one.get("description")]
    return here + [found for name, one in schema.items() for found in undescribed(one, f"{at}/{name}")]


@pytest.mark.parametrize("name", sorted(schemas()))
def test_every_property_has_a_description(name: str) -> None:
    made = json.loads(schemas()[name])
    assert undescribed(made) == [], "say what the key is in the docstring of its model, as `key: text` (spec.described)"


def test_a_property_without_a_description_is_found() -> None:
    said = {"properties": {"a": {"description": "x"}, "b": {}}}
    assert undescribed({"$defs": {"One": said}, "anyOf": [said]}) == ["/$defs/One.b", "/anyOf/0.b"]


def test_without_extends_everything_required_is() -> None:
    assert errors("timeouts", "timeouts: {ssh: 10}\n")
    assert errors("tiers", "tiers: {full: null}\n")
    assert errors("tiers", "extends: other\ntiers: {}\n")
