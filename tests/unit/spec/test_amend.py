"""One document over another: what stays, what changes, what goes, and the file and line of each value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.spec.amend import amended
from harness.spec.lines import Document, Problem, read

BASE = """\
axes:
  - name: os
    label: System
    values:
      - {id: deb, label: Debian, class: x, vars: {a: "1", b: "2"}, paths: [one, two]}
      - {id: ubu, label: Ubuntu}
  - name: proxy
    values:
      - {id: nft}
rules:
  - {why: they differ, if: {os: {not: deb}}}
tiers:
  smoke: {label: one, suites: [nodes, network], budget: {cells: 1}}
source: {kind: build, recipe: deb}
"""


def merged(tmp_path: Path, changes: str) -> tuple[Document, list[Problem]]:
    """Return the base with changes."""
    (tmp_path / "base.yml").write_text(BASE, encoding="utf-8")
    (tmp_path / "top.yml").write_text(changes, encoding="utf-8")
    (base, none), (top, nor_here) = read(tmp_path / "base.yml"), read(tmp_path / "top.yml")
    assert none + nor_here == []
    return amended(base, top)


def content(**changes: Any) -> dict[str, Any]:
    """Return what the base holds, with other values at the top."""
    return {**yaml.safe_load(BASE), **changes}


@pytest.mark.parametrize(
    ("changes", "at", "value"),
    [
        ("tiers: {smoke: {label: two}}", ("tiers", "smoke", "label"), "two"),
        ("tiers: {smoke: {label: two}}", ("tiers", "smoke", "budget"), {"cells": 1}),
        ("tiers: {mine: {label: new}}", ("tiers", "mine"), {"label": "new"}),
        ("tiers: {mine: {label: new}}", ("tiers", "smoke", "label"), "one"),
        ("tiers: {smoke: {suites: [mine]}}", ("tiers", "smoke", "suites"), ["mine"]),
        ("tiers: {smoke: {budget: null}}", ("tiers", "smoke"), {"label": "one", "suites": ["nodes", "network"]}),
        ("axes: [{name: os, label: new}]", ("axes", 0, "values", 1, "label"), "Ubuntu"),
        ("axes: [{name: os, label: new}]", ("axes", 0, "label"), "new"),
        ("axes: [{name: os, label: new}]", ("axes", 1, "name"), "proxy"),
        ("axes: [{name: os, values: [{id: deb, vars: {b: x}}]}]", ("axes", 0, "values", 0, "vars", "a"), "1"),
        ("axes: [{name: os, values: [{id: deb, vars: {b: x}}]}]", ("axes", 0, "values", 0, "vars", "b"), "x"),
        ("axes: [{name: os, values: [{id: deb, class: y}]}]", ("axes", 0, "values", 0, "label"), "Debian"),
        ("axes: [{name: os, values: [{id: deb, paths: [x]}]}]", ("axes", 0, "values", 0, "paths"), ["x"]),
        ("axes: [{name: os, values: [{id: sus, label: S}]}]", ("axes", 0, "values", 2), {"id": "sus", "label": "S"}),
        ("axes: [{name: os, values: [{id: deb, remove: true}]}]", ("axes", 0, "values", 0, "id"), "ubu"),
        ("axes: [{name: os, remove: true}]", ("axes", 0, "name"), "proxy"),
        ("rules: [{why: they differ, if: {os: {class: x}}}]", ("rules", 0, "if", "os"), {"class": "x"}),
        ("rules: [{why: another}]", ("rules", 1, "why"), "another"),
        ("source: {kind: url, url: x}", ("source",), {"kind": "url", "url": "x"}),
        ("source: {recipe: ubu}", ("source",), {"kind": "build", "recipe": "ubu"}),
        ("source: none", ("source",), "none"),
    ],
)
def test_a_change_changes_what_it_names(tmp_path: Path, changes: str, at: tuple[str | int, ...], value: Any) -> None:
    document, problems = merged(tmp_path, f"extends: default\n{changes}\n")
    assert problems == []
    found = document.content
    for key in at:
        found = found[key]
    assert found == value
    assert "extends" not in document.content


def test_without_changes_it_is_the_base(tmp_path: Path) -> None:
    document, problems = merged(tmp_path, "extends: default\n")
    assert (document.content, problems) == (content(), [])


def test_every_value_keeps_its_file_and_line(tmp_path: Path) -> None:
    document, _ = merged(
        tmp_path,
        "extends: default\naxes:\n  - name: os\n    values:\n      - {id: deb, remove: true}\n      - id: ubu\n"
        "        vars: {c: x}\n      - id: new\n",
    )
    base, top = tmp_path / "base.yml", tmp_path / "top.yml"
    assert document.place_of(("axes", 0, "label")) == (base, 3)
    assert document.place_of(("axes", 0, "values", 0, "label")) == (base, 6)
    assert document.place_of(("axes", 0, "values", 0, "vars", "c")) == (top, 7)
    assert document.place_of(("axes", 0, "values", 1, "id")) == (top, 8)
    assert document.place_of(("axes", 1, "values", 0, "id")) == (base, 9)
    assert document.place_of(("axes", 0, "values", 1, "nothing of the kind")) == (top, 8)
    assert str(document.problem(("tiers", "smoke", "label"), "bad")) == f"{base}:13: tiers.smoke.label: bad"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("tiers: {smok: null}", "top.yml:2: tiers.smok: removes what the default does not have"),
        ("tiers: {smok: null}", "did you mean 'smoke'?"),
        ("axes: [{nmae: os, label: x}]", "top.yml:2: axes[0]: has no `name`"),
        ("axes: [os]", "top.yml:2: axes[0]: has no `name`"),
        ("axes: [{name: oss, remove: true}]", "top.yml:2: axes[0]: removes what the default does not have"),
        ("axes: [{name: os, remove: yes please}]", "top.yml:2: axes[0].remove: expected true, got 'yes please'"),
        ("axes: [{name: os, label: a}, {name: os, label: b}]", "axes[1]: changes name 'os' a second time"),
    ],
)
def test_a_change_that_cannot_be_is_named_by_its_line(tmp_path: Path, changes: str, said: str) -> None:
    _, problems = merged(tmp_path, f"extends: default\n{changes}\n")
    assert said in "\n".join(map(str, problems))
