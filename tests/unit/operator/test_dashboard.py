"""The Grafana dashboard: every expression names metrics and labels that a manager has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from harness.operator.metrics import FAMILIES, VERSIONS, Family
from tests.unit.pages import ROOT

FILE = ROOT / "deploy" / "operator" / "grafana.json"
RULES = FILE.with_name("alerts.yaml")
BOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
NAME, TARGETS = re.compile(r"vmatrix_operator_\w+"), {"namespace", "pod", "job", "instance"}  # labels of a scrape
OF_HISTOGRAM = ("_bucket", "_sum", "_count")
CHOSEN = re.compile(r'(\w+)(?:=~?|!=)"')


def expressions() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def alerts() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def family_of(name: str) -> Family | None:
    """Return the metric that a name in an expression belongs to."""
    for family in FAMILIES:
        suffixes = OF_HISTOGRAM if family.kind == "histogram" else ("",)
        if name in {f"{family.name}{suffix}" for suffix in suffixes}:
            return family
    return None


@pytest.mark.parametrize(("title", "expression"), sorted([*expressions(), *alerts()]))
def test_an_expression_names_metrics_and_labels_that_there_are(title: str, expression: str) -> None:
    names = NAME.findall(expression)
    assert names, f"{title} shows nothing of the operator"
    for name in names:
        family = family_of(name)
        assert family is not None, f"{title}: there is no metric {name}"
        asked = set(CHOSEN.findall(expression))
        asked |= {word.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for word in group.split(",")}
        known = {*family.labels, *TARGETS, *(("le",) if family.kind == "histogram" else ())}
        assert asked <= known, f"{title}: {name} has no label {asked - known}"
        counts = family.kind == "counter" or name.endswith("_bucket")
        assert counts == bool(re.search(rf"(rate|increase)\({name}", expression)), f"{title}: {name}"


def test_every_metric_is_shown_and_described() -> None:
    shown = {found.name for _, one in expressions() for name in NAME.findall(one) if (found := family_of(name))}
    assert shown == {family.name for family in FAMILIES}
    page = (ROOT / "docs" / "operator" / "webhooks.md").read_text(encoding="utf-8")
    assert [family.name for family in FAMILIES if f"`{family.name}`" not in page] == []


def test_panels_have_places_of_their_own() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_alert_says_what_is_wrong_where_and_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    told = {found.name for _, one in alerts() for name in NAME.findall(one) if (found := family_of(name))}
    assert {family.name for family in FAMILIES if "cluster" in family.labels} - told == {VERSIONS.name}
    for rule in rules:
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        texts = rule["annotations"]
        assert {"summary", "description"} == texts.keys()
        labels = set(re.findall(r"\$labels\.(\w+)", " ".join(texts.values())))
        names = [family for name in NAME.findall(rule["expr"]) if (family := family_of(name)) is not None]
        assert labels <= {label for family in names for label in family.labels}, rule["alert"]
        assert labels >= ({"cluster", "cluster_namespace"} if any("cluster" in one.labels for one in names) else set())
