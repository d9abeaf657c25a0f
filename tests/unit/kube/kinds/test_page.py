"""docs/operator/fields.md names every field of every kind, with the default and the meaning of the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.kube.kinds.page import BEGIN, END, with_fields
from harness.operator.api.crds import crds
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
