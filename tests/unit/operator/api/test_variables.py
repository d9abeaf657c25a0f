"""No variable comes past the rules of the field that stands for it; all others are ones that the playbooks know."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.api.variables import KNOWN, MAPPINGS, OPERATORS_OWN, variable_mistakes
from harness.spec.variables import known_variables
from tests.unit.operator.api.objects import defaulted, deployment


def said(name: str, value: object, **spec: Any) -> list[str]:
    cd = defaulted(deployment(variables={name: value}, **spec))
    return [mistake.text for mistake in variable_mistakes(cd)]


@pytest.mark.parametrize("name", sorted({*KNOWN, *OPERATORS_OWN} - MAPPINGS.keys()))
def test_a_variable_that_something_else_stands_for_is_refused_with_the_field(name: str) -> None:
    (text,) = said(name, "1")
    assert text.startswith(f"spec.variables.{name}: ")
    if name in KNOWN and name not in OPERATORS_OWN:
        path = KNOWN[name].path
        assert ("spec.addons" if path.startswith("addons") else f"spec.{path}") in text


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_a_variable_that_is_merged_with_a_field_is_a_mapping_and_keeps_its_rules(name: str) -> None:
    assert said(name, {"a": "1"}) == []
    assert said(name, ["a"]) == [
        f"spec.variables.{name}: it is merged with spec.{MAPPINGS[name].path}, and is not a mapping: write KEY: VALUE"
    ]
    wrong = {"--a": "1"} if MAPPINGS[name].path.endswith(".extraArgs") else {"a": {"b": -1}}
    assert len(said(name, wrong)) == 1


@pytest.mark.parametrize("name", sorted({*known_variables()} - KNOWN.keys() - OPERATORS_OWN))
def test_every_other_variable_of_the_playbooks_may_be_set(name: str) -> None:
    assert said(name, "1") == []


def test_only_vmatrix_s_own_playbooks_are_known_by_their_variables() -> None:
    assert said("cluster_of_ours", 1)
    assert said("cluster_of_ours", 1, playbooks={"image": "registry.invalid/ours:1"}) == []
    assert said("cluster_of_ours", 1, playbooks={"product": {"configMap": "ours"}}) == []
    assert said("etcd_restore_patience", 90) == [], "a role's own variable"


@pytest.mark.parametrize(("name", "least"), [("oomScoreAdj", -999), ("podPidsLimit", -1), ("maxPods", 0)])
def test_a_number_that_may_be_negative_is_taken(name: str, least: int) -> None:
    assert said("cluster_kubelet_config", {name: least}) == []
    assert said("cluster_kubelet_config", {name: -1001})
