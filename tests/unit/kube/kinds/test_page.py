"""docs/operator/fields.md names every field of every kind, with the default and the meaning of the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from harness.kube.kinds.page import BEGIN, END, mistakes_of_form, path_of, with_fields
from harness.operator.api.crds import crds
from tests.unit.operator.api.objects import defaulted, deployment, wanted_set
from tests.unit.pages import ROOT

PAGE = (ROOT / "docs" / "operator" / "fields.md").read_text(encoding="utf-8")


def leaves(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the name of every field that has no fields inside."""
    for name, inner in schema["properties"].items():
        inside = inner.get("items", inner)
        if "properties" in inside:
            yield from leaves(inside)
        else:
            yield name


def test_the_tables_are_those_of_the_definitions() -> None:
    assert with_fields(PAGE, crds()) == PAGE, "run `vmatrix operator crds --write`"


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["spec"]["names"]["kind"])
def test_every_field_of_a_kind_is_in_its_tables(crd: dict[str, Any]) -> None:
    begin = BEGIN.format(crd["spec"]["names"]["kind"])
    assert begin in PAGE
    tables = PAGE.partition(begin)[2].partition(END)[0]
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    fields = [name for top in ("spec", "status") if top in properties for name in leaves(properties[top])]
    assert len(fields) > 5
    assert [name for name in fields if f"{name}` |" not in tables] == []


def test_what_stood_between_the_marks_is_replaced_and_the_rest_is_kept() -> None:
    begin = BEGIN.format("MachineSet")
    made = with_fields(f"before\n{begin}old\n{END}\nafter\n", crds())
    assert made.startswith(f"before\n{begin}`spec`:\n")
    assert made.endswith(f"|\n{END}\nafter\n")
    assert "old\n" not in made
    assert with_fields(made, crds()) == made


def test_a_row_has_the_default_and_the_choices() -> None:
    assert "| `plugin` | `flannel` | Network plugin; cannot change; one of `flannel`, `routes` |" in PAGE
    assert "| `version` | required | Kubernetes version |" in PAGE


Json = dict[str, Any]


def told(obj: Json) -> list[str]:
    """Return what is told of an object that has another form."""
    with pytest.raises(ValidationError) as caught:
        defaulted(obj)
    return [mistake.text for mistake in mistakes_of_form(caught.value)]


def test_a_mistake_in_an_entry_is_not_told_of_the_list_again() -> None:
    obj = deployment(wanted_set("cp", "boss"))
    assert told(obj) == [
        'spec.machineSets[0].roles[0]: Unsupported value: "boss": '
        'supported values: "control-plane", "etcd", "worker"'
    ]  # fmt: skip


def test_mistakes_in_several_fields_are_all_told() -> None:
    obj = deployment(wanted_set("Cp", "worker"), version=1, jobs={"retries": 99})
    assert [text.partition(": ")[0] for text in told(obj)] == [
        "spec.version",
        "spec.machineSets[0].name",
        "spec.jobs.retries",
    ]


@pytest.mark.parametrize("obj", [{}, {"metadata": {"name": "guest"}}, {**deployment(), "spec": None}])
def test_an_object_without_a_spec_is_told_to_have_one(obj: Json) -> None:
    assert any(text.startswith("spec: ") for text in told(obj))


def test_paths_are_written_as_the_api_server_does() -> None:
    assert path_of("spec", "machineSets", 0, ".roles") == "spec.machineSets[0].roles"
    assert path_of(".metadata.name") == "metadata.name"
    assert path_of("spec", "network", "") == "spec.network"
