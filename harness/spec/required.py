"""Variables that every cell must have: those that the product says it needs, and those that vmatrix itself does.

A cell has the product's variables, those of its value on each axis, and those of its scenario's first phase. Works on
the files' plain data, as `crossref` does, which calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Document, Location, Problem

# Without these, nothing can be obtained for a cell, or its checks cannot be chosen.
OURS = ("cluster_kubernetes_version",)
# Given to every product by the run itself (`cell.variables`).
BY_THE_RUN = frozenset(
    {
        "cluster_timeout_scale",
        "cluster_mirror_url",
        "cluster_image_registry",
        "cluster_kubeconfig_path",
        "cluster_etcd_snapshot_path",
        "cluster_hosts",
    }
)


def check(documents: Mapping[str, Document]) -> list[Problem]:
    """Return what is wrong with each variable that not every cell would have: one problem a variable and place."""
    product = documents["product.yml"].content
    if not all(isinstance(documents[name].content, Mapping) for name in ("product.yml", "axes.yml", "scenarios.yml")):
        return []
    wanted: dict[str, Location] = dict.fromkeys(OURS, ("product",))
    wanted |= {name: at for at, name in texts(product, "product", "requires", EACH)}
    given = {str(at[-1]) for at, _ in find(product, "product", "vars", EACH)} | BY_THE_RUN
    return [
        problem
        for name, at in wanted.items()
        if given.isdisjoint(_names(product, name)) and not name.startswith("ansible_")
        for problem in _missing(name, at, documents)
    ]


def _names(product: Any, name: str) -> set[str]:
    """Return the names under which a cell may be given a variable: its own, and the one that it has by `variables`."""
    both = {str(at[-1]): theirs for at, theirs in texts(product, "product", "variables", EACH)}
    return {name, both.get(name, name), *(ours for ours, theirs in both.items() if theirs == name)}


def _missing(name: str, wanted: Location, documents: Mapping[str, Document]) -> Iterator[Problem]:
    """Yield the values that leave a variable out, on an axis of which others have it; else that no axis has it."""
    product, axes = documents["product.yml"], documents["axes.yml"]
    line = product.line_of(wanted)
    whose = f"product.yml:{line} requires" if wanted[-1] != "product" else "vmatrix needs"
    partly: list[tuple[Location, str]] = []
    for at, axis in find(axes.content, "axes", EACH):
        values = [((*at, *inner), value) for inner, value in find(axis, "values", EACH)]
        without = [(here, value) for here, value in values if not _has(value, name, axis, documents)]
        if values and not without:
            return
        if len(without) < len(values):
            partly += [(here, field(value, "id") or "") for here, value in without]
    for here, value in partly:
        said = f"{value} does not set {name}, which {whose} of every cell; add it to the value's `vars`"
        yield axes.problem((*here, "vars"), f"{said}, or to `vars` in product.yml")
    if not partly:
        said = f"no cell has the variable {name}, which {whose.replace('product.yml:' + str(line), 'this line')}"
        said += "; set it under `vars` here, or in the `vars` of every value of an axis"
        word = "" if name not in OURS else "; if the product has another word for it, name that under `variables`"
        yield product.problem(wanted, said + word)


def _has(value: Any, name: str, axis: Any, documents: Mapping[str, Document]) -> bool:
    """Tell whether a cell with a value has a variable from its first phase on."""
    names = _names(documents["product.yml"].content, name)
    if any(True for one in names for _ in find(value, "vars", one)):
        return True
    if field(axis, "name") != "scenario":
        return False
    scenario = field(value, "id") or ""
    for _, phases in find(documents["scenarios.yml"].content, "scenarios", scenario, "phases"):
        if isinstance(phases, list) and phases:
            return any(True for one in names for _ in find(phases[0], "vars", one))
    return False
