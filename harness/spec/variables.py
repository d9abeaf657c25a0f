"""Variables of products: their own names for ours, those that every cell needs, those that are reserved.

A cell has the product's variables, those of its value on each axis, and those of its scenario's first phase. Works on
the files' plain data, as `crossref` does, which calls it.

A cell has such a variable under both names, whichever of them the matrix sets, so that the matrix may be written in the
product's words and vmatrix still knows what it deploys. `crossref` calls the checks, on plain data.

`cell.variables` sets them after everything that the matrix says.

A scenario that starts from such a value would end in a refusal of the playbooks, once its machines are up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.paths import MATRIX, packaged_dir
from harness.spec import layers, lines
from harness.spec.declared import EACH, Wild, field, find, texts
from harness.spec.lines import Document, Finding, Location, Problem
from harness.spec.models.facts import ENFORCES_POLICIES
from harness.spec.shape import shown, unknown

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


def check_required(documents: Mapping[str, Document]) -> list[Problem]:
    """Return what is wrong with each variable that not every cell would have: one problem a variable and place."""
    product = documents["product.yml"].content
    if not all(isinstance(documents[name].content, Mapping) for name in ("product.yml", "axes.yml", "scenarios.yml")):
        return []
    required: dict[str, Location] = dict.fromkeys(OURS, ("product",))
    required |= {name: at for at, name in texts(product, "product", "requires", EACH)}
    names_of_product = {str(at[-1]) for at, _ in find(product, "product", "vars", EACH)} | BY_THE_RUN
    return [
        problem
        for name, at in required.items()
        if names_of_product.isdisjoint(_names(product, name)) and not name.startswith("ansible_")
        for problem in _missing(name, at, documents)
    ]


def _names(product: Any, name: str) -> set[str]:
    """Return the names under which a cell may be given a variable: its own, and the one that it has by `variables`."""
    both = {str(at[-1]): theirs for at, theirs in texts(product, "product", "variables", EACH)}
    return {name, both.get(name, name), *(ours for ours, theirs in both.items() if theirs == name)}


def _missing(name: str, place: Location, documents: Mapping[str, Document]) -> Iterator[Problem]:
    """Yield the values that leave a variable out, on an axis of which others have it; else that no axis has it."""
    product, axes = documents["product.yml"], documents["axes.yml"]
    line = product.line_of(place)
    whose = f"product.yml:{line} requires" if place[-1] != "product" else "vmatrix needs"
    partly: list[tuple[Location, str]] = []
    for at, axis in find(axes.content, "axes", EACH):
        values = [((*at, *inner), value) for inner, value in find(axis, "values", EACH)]
        without = [(here, value) for here, value in values if not _has(value, name, axis, documents)]
        if values and not without:
            return
        if len(without) < len(values):
            partly += [(here, field(value, "id") or "") for here, value in without]
    for here, value in partly:
        message = f"{value} does not set {name}, which {whose} of every cell; add it to the value's `vars`"
        yield axes.problem((*here, "vars"), f"{message}, or to `vars` in product.yml")
    if not partly:
        message = f"no cell has the variable {name}, which {whose.replace('product.yml:' + str(line), 'this line')}"
        message += "; set it under `vars` here, or in the `vars` of every value of an axis"
        word = "" if name not in OURS else "; if the product has another word for it, name that under `variables`"
        yield product.problem(place, message + word)


def _has(value: Any, name: str, axis: Any, documents: Mapping[str, Document]) -> bool:
    """Tell whether a cell with a value has a variable from its first phase on."""
    names = _names(documents["product.yml"].content, name)
    if any(True for alias in names for _ in find(value, "vars", alias)):
        return True
    if field(axis, "name") != "scenario":
        return False
    scenario = field(value, "id") or ""
    for _, phases in find(documents["scenarios.yml"].content, "scenarios", scenario, "phases"):
        if isinstance(phases, list) and phases:
            return any(True for alias in names for _ in find(phases[0], "vars", alias))
    return False


DEFAULTS = "playbooks/group_vars/all"  # of the packaged playbooks
SOMETIMES = (  # given by a run, or to a play as a whole
    *("cluster_remove_nodes", "cluster_lost_nodes", "cluster_files_url", "cluster_checksums"),
    *("cluster_former_control_planes", "cluster_upgrade_workers"),
)
VERSION_SUFFIX = "_version"  # how the names of versions end; vmatrix has them without a leading v


def in_both(words: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables with each under both its names; what is set under both stays as it is."""
    made = dict(given)
    for ours, theirs in words.items():
        if ours in given:
            made.setdefault(theirs, given[ours])
        elif theirs in given:
            made[ours] = _bare(given[theirs]) if ours.endswith(VERSION_SUFFIX) else given[theirs]
    return made


def translated(words: Mapping[str, str], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables that a run has changed or added under vmatrix's names, with the product's names following.

    Args:
        before: as `in_both` returned them.  after: as the run has them.
    """
    made = dict(after)
    for ours, theirs in words.items():
        if ours in after and (theirs not in after or after[theirs] == before.get(ours)):
            made[theirs] = after[ours]
    return made


def check_names(content: Any) -> Iterator[Finding]:
    """Find words that vmatrix does not know, and those that stand for two things."""
    ours_by_theirs: dict[str, str] = {}
    for at, theirs in texts(content, "product", "variables", EACH):
        ours, known = str(at[-1]), known_variables()
        if ours not in known:
            yield at, unknown("variable of vmatrix", ours, known)
        elif theirs in known:
            yield at, f"{shown(theirs)} is vmatrix's own variable; give the product's name for {ours}"
        elif ours_by_theirs.setdefault(theirs, ours) != ours:
            yield at, f"{shown(theirs)} already stands for {ours_by_theirs[theirs]}; a name stands for one variable"


def _bare(version: Any) -> Any:
    return version.removeprefix("v") if isinstance(version, str) else version


def known_variables() -> tuple[str, ...]:
    """Return what the packaged playbooks are given by the matrix, defaults and a run, and what only checks read."""
    files = sorted((packaged_dir() / DEFAULTS).glob("*.yml"))
    names = [name for file in files for name in yaml.safe_load(file.read_text(encoding="utf-8")) or {}]
    axes = lines.read(packaged_dir() / MATRIX / "axes.yml")[0].content
    names += [str(at[-1]) for at, _ in find(axes, "axes", EACH, "values", EACH, "vars", EACH)]
    return tuple(dict.fromkeys((*names, *OURS, *sorted(BY_THE_RUN), *SOMETIMES, ENFORCES_POLICIES)))


REMOVALS = "the machines of `remove`, `lose` and `hold_back` of the scenario's phases"
MACHINES = "the cell's machines, which the topology declares"
MIRROR = "the run's mirror; `artifacts` of product.yml says what it serves"
# By name: what a cell has there instead.
SET_BY_THE_RUN = {
    "cluster_hosts": MACHINES,
    "cluster_remove_nodes": REMOVALS,
    "cluster_lost_nodes": REMOVALS,
    "cluster_former_control_planes": "the operator, for the control planes that it rebuilds",
    "cluster_kubeconfig_path": "a file in the cell's folder",
    "cluster_etcd_snapshot_path": "a file in the cell's folder",
    "cluster_mirror_url": MIRROR,
    "cluster_image_registry": MIRROR,
}
# What a run gives besides, and where it comes from; a matrix may set some of it, too.
GIVEN_BY_THE_RUN = {
    **SET_BY_THE_RUN,
    "cluster_timeout_scale": "the setting timeout_scale",
    "cluster_files_url": MIRROR,
    "cluster_files": MIRROR,
    "cluster_file_checksums": MIRROR,
    "cluster_checksums": "the programs that the run's mirror has below bin/",
    "cluster_load_balancer_addresses": "spare addresses of the infra cluster, for cells with MetalLB",
    "cluster_upgrade_workers": "`vars` of a phase of the scenario; without it, an upgrade is of workers as well",
    "product_sources": "`sources` of product.yml: the folder where they are",
}
PLACES: tuple[tuple[str, tuple[str | Wild, ...]], ...] = (
    ("product.yml", ("product", "vars")),
    ("product.yml", ("product", "phases", EACH, "vars")),
    ("axes.yml", ("axes", EACH, "values", EACH, "vars")),
    ("scenarios.yml", ("scenarios", EACH, "phases", EACH, "vars")),
)


@dataclass(frozen=True)
class VariablePlace:
    """Where a matrix sets a variable."""

    document: Document
    at: Location
    value: Any

    def problem(self, message: str) -> Problem:
        """Return what is wrong there."""
        return self.document.problem(self.at, message)

    def __str__(self) -> str:
        file, line = self.document.place_of(self.at)
        return f"{file}:{line}"


def asking(directory: Path, name: str, text: str) -> VariablePlace:
    """Return where a matrix sets a variable to a version, or else where product.yml names an artifact by that text.

    Args:
        directory: of the matrix.
        name: vmatrix's, of the variable; "" for the artifact.
    """
    documents = _read(directory)
    product = documents["product.yml"]
    names = _names(product.content, name) if name else set()
    for file, steps in PLACES:
        for at, value in find(documents[file].content, *steps, EACH):
            if at[-1] in names and str(value).removeprefix("v") == text:
                return VariablePlace(documents[file], at, value)
    for kind in ("serve", "images"):
        for at, entry in find(product.content, "product", "artifacts", kind, EACH):
            if text in (entry, field(entry, "artifact")):
                return VariablePlace(product, at, entry)
    return VariablePlace(product, ("product",), None)


def variable_places(directory: Path, values: Mapping[str, str], product: str = "") -> dict[str, VariablePlace]:
    """Return where each variable of a cell is set that it has in all of its phases, in the words of the matrix.

    Args:
        directory: of the matrix.
        values: of the cell, by axis.
        product: the file of the product over product.yml, if the cell has such a one.
    """
    documents = _read(directory)
    products = [documents["product.yml"], *([layers.read(directory, product)[0]] if product else [])]
    places = [
        VariablePlace(document, at, value)
        for document in products
        for at, value in find(document.content, "product", "vars", EACH)
    ]
    axes = documents["axes.yml"]
    for above, axis in find(axes.content, "axes", EACH):
        for inner, value in find(axis, "values", EACH):
            if field(value, "id") == values.get(field(axis, "name") or ""):
                places += [VariablePlace(axes, (*above, *inner, *at), value) for at, value in find(value, "vars", EACH)]
    return {str(place.at[-1]): place for place in places}


def _read(directory: Path) -> dict[str, Document]:
    return {name: layers.read(directory, name)[0] for name in dict.fromkeys(name for name, _ in PLACES)}


def check_reserved(documents: Mapping[str, Document]) -> Iterator[Problem]:
    """Find variables of the matrix that no cell would ever have with the value given."""
    for name, steps in PLACES:
        document = documents[name]
        for at, _ in find(document.content, *steps, EACH):
            yield from _told(document, at)


def _told(document: Document, at: Location) -> Iterator[Problem]:
    name = str(at[-1])
    if name in SET_BY_THE_RUN:
        yield document.problem(at, f"vmatrix sets {name} itself: {SET_BY_THE_RUN[name]}; remove the variable")


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two sets of variables as one: the second wins, but where both have a mapping, these are merged."""
    both = dict(below)
    for name, value in above.items():
        there = both.get(name)
        both[name] = merged(there, value) if isinstance(there, Mapping) and isinstance(value, Mapping) else value
    return both


NEVER_BACK = tuple(f"cluster_{name}_version" for name in ("kubernetes", "etcd", "containerd", "crio"))
RUNTIME = "cluster_container_runtime"
VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def check_downgrades(values: list[tuple[Location, Any]]) -> Iterator[Finding]:
    """Find them among the values of an axis, by their variables."""
    variables_by_id = {name: _variables(value) for _, value in values if (name := field(value, "id")) is not None}
    for at, value in values:
        now = _variables(value)
        for inner, earlier in texts(value, "before", EACH):
            was = variables_by_id.get(earlier, {})
            for variable in NEVER_BACK:
                then, here = was.get(variable, ""), now.get(variable, "")
                if _numbers(here) and _numbers(then) > _numbers(here):
                    yield (
                        (*at, *inner),
                        f"{earlier} has {variable} {then}, and this value {here}, which is older: an upgrade never "
                        "goes back; name an earlier value, or remove it",
                    )
            if RUNTIME in was and RUNTIME in now and was[RUNTIME] != now[RUNTIME]:
                yield (
                    (*at, *inner),
                    f"{earlier} has {RUNTIME} {was[RUNTIME]}, and this value {now[RUNTIME]}: no upgrade replaces a "
                    "runtime by another one; name a value of the same runtime, or remove it",
                )


def _variables(value: Any) -> Mapping[str, str]:
    return {str(at[-1]): text for at, text in texts(value, "vars", EACH)}


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, none for what is not a version."""
    match = VERSION.match(version)
    return tuple(map(int, match.groups())) if match else ()


ETCD_ARGS = "cluster_etcd_extra_args"
ETCD_TIMES = {"heartbeat-interval": "500", "election-timeout": "5000"}  # ms; etcd's own are 100 and 1000
