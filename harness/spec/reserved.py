"""Variables that the run itself sets: setting them in the matrix would change nothing; `crossref` calls the check.

`cell.variables` sets them after everything that the matrix says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.spec.declared import EACH, Wild, find
from harness.spec.lines import Document, Location, Problem

REMOVALS = "the machines of `remove`, `lose` and `hold_back` of the scenario's phases"
MACHINES = "the cell's machines, which the topology declares"
MIRROR = "the run's mirror; `artifacts` of product.yml says what it serves"
# By name: what a cell has there instead.
SET_BY_THE_RUN = {
    "cluster_hosts": MACHINES,
    "cluster_remove_nodes": REMOVALS,
    "cluster_lost_nodes": REMOVALS,
    "cluster_kubeconfig_path": "a file in the cell's folder",
    "cluster_etcd_snapshot_path": "a file in the cell's folder",
    "cluster_mirror_url": MIRROR,
    "cluster_image_registry": MIRROR,
}
PLACES: tuple[tuple[str, tuple[str | Wild, ...]], ...] = (
    ("product.yml", ("product", "vars")),
    ("product.yml", ("product", "phases", EACH, "vars")),
    ("axes.yml", ("axes", EACH, "values", EACH, "vars")),
    ("scenarios.yml", ("scenarios", EACH, "phases", EACH, "vars")),
)


def check(documents: Mapping[str, Document]) -> Iterator[Problem]:
    """Find variables of the matrix that no cell would ever have with the value given."""
    for name, steps in PLACES:
        document = documents[name]
        for at, _ in find(document.content, *steps, EACH):
            yield from _told(document, at)


def _told(document: Document, at: Location) -> Iterator[Problem]:
    name = str(at[-1])
    if name in SET_BY_THE_RUN:
        yield document.problem(at, f"vmatrix sets {name} itself: {SET_BY_THE_RUN[name]}; remove the variable")
