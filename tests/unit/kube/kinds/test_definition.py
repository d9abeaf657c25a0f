"""A definition that lacks a field is older, one that has more is newer, and one of other words is neither."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.kube.kinds.definition import lacking
from harness.operator.api.crds import DIGEST, crds

Json = dict[str, Any]
OURS = crds()[0]


def another() -> tuple[Json, Json]:
    """Return a definition of another version, and the schema of its spec."""
    made = copy.deepcopy(OURS)
    made["metadata"]["annotations"][DIGEST] = "another"
    spec: Json = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return made, spec["properties"]


def test_our_own_definition_lacks_nothing() -> None:
    assert lacking(OURS, copy.deepcopy(OURS)) == []
    assert lacking(OURS, another()[0]) == []


@pytest.mark.parametrize("digest", [None, "another"])
def test_a_definition_without_a_field_lacks_it_and_all_below(digest: str | None) -> None:
    made, properties = another()
    made["metadata"]["annotations"] = {DIGEST: digest} if digest else {}
    del properties["jobs"]
    missing = lacking(OURS, made)
    assert missing[0] == "spec.jobs"
    assert "spec.jobs.keepFailed" in missing


def test_a_definition_without_a_choice_lacks_it() -> None:
    made, properties = another()
    properties["network"]["properties"]["plugin"]["enum"].remove("routes")
    assert lacking(OURS, made) == ["spec.network.plugin=routes"]


def test_a_definition_with_more_lacks_nothing() -> None:
    made, properties = another()
    properties["weather"] = {"type": "object", "properties": {"forecast": {"type": "string"}}}
    properties["access"]["enum"].append("Tunnel")
    assert lacking(OURS, made) == []


def test_other_words_and_limits_are_not_older() -> None:
    made, properties = another()
    properties["version"]["description"] = "Another description."
    properties["machineSets"]["maxItems"] = 5
    assert lacking(OURS, made) == []


def test_a_definition_that_serves_another_version_lacks_all() -> None:
    made, _ = another()
    made["spec"]["versions"][0]["name"] = "v1beta1"
    assert lacking(OURS, made)[0] == "version v1alpha1"
