"""The order of the suites, and the items of the conformance specs."""

from __future__ import annotations

import functools

import pytest

from harness.model import Cell
from harness.plugin.items import suite_of
from harness.plugin.state import PLAN
from harness.validate.conformance.curated import load_curated
from harness.validate.facts.expected import minor_of

# Without a tier; from cheap to expensive, and last what may change the cluster.
SUITES = ("phases", "nodes", "cluster", "network", "conformance", "performance", "idempotence")


@functools.cache
def _spec_names(minor: str) -> dict[str, None]:
    return {spec.name: None for spec in load_curated(minor).specs}


def _specs_of(cell: Cell, phase: int) -> dict[str, None]:
    """Return the specs for the Kubernetes minor that a cell has after a phase."""
    return _spec_names(minor_of(str(cell.phases[phase].vars["cluster_kubernetes_version"])))


@pytest.hookimpl(trylast=True)  # after the plugin's, so that the cell comes first in the item's name
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item of every curated spec of the selected cells' minors."""
    if "spec_name" in metafunc.fixturenames:
        moments = [(cell, n) for cell in metafunc.config.stash[PLAN].cells for n in range(len(cell.phases))]
        names = list(dict.fromkeys(name for cell, phase in moments for name in _specs_of(cell, phase)))
        metafunc.parametrize("spec_name", names, ids=names)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put suites in the tier's order; drop the items that pair a cell with a spec of another minor."""
    plan = config.stash.get(PLAN, None)
    named = plan.project.spec.tiers[plan.tier].suites if plan is not None and plan.tier else SUITES
    order = {suite: number for number, suite in enumerate(named)}
    items.sort(key=lambda item: order.get(suite_of(item), len(order)))
    foreign = {item for item in items if _is_foreign(item)}
    if foreign:
        items[:] = [item for item in items if item not in foreign]
        config.hook.pytest_deselected(items=list(foreign))


def _is_foreign(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or "spec_name" not in item.fixturenames:
        return False
    cell, phase = item.callspec.params["cell"], item.callspec.params["phase"]
    if not isinstance(cell, Cell) or not isinstance(phase, int):
        return False
    return item.callspec.params["spec_name"] not in _specs_of(cell, phase)
