"""What the checks of every suite share: the guest under inspection, and the items of the conformance specs."""

from __future__ import annotations

import functools

import pytest

from harness.kube import Cluster
from harness.model import Cell, GuestCluster
from harness.plugin.state import PLAN
from harness.session import Cells
from harness.session.witness import inspection_options
from harness.spec.models import Timeouts
from harness.validate.conformance.curated import load_curated
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.expected import ExpectedGuest, minor_of
from harness.validate.facts.node import NodeFacts
from harness.validate.inspection import Inspection

SUITES = ("phases", "nodes", "cluster", "network", "conformance")  # from cheap to expensive


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
    """Put the cheap suites first; drop the items that pair a cell with a spec of another minor."""
    items.sort(key=lambda item: SUITES.index(item.path.parent.name) if item.path.parent.name in SUITES else len(SUITES))
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


@pytest.fixture(scope="session")
def inspection(guest: GuestCluster, cells: Cells, timeouts: Timeouts) -> Inspection:
    """The guest under inspection."""
    options = inspection_options(guest.environment)
    leaves = cells.site.spec.product.cluster
    inspected = Inspection(guest, leaves, ssh_options=options, timeouts=timeouts)
    inspected.wait_for_api()
    return inspected


@pytest.fixture(scope="session")
def expected(inspection: Inspection) -> ExpectedGuest:
    """What the guest must look like."""
    return inspection.expected


@pytest.fixture(scope="session")
def api(inspection: Inspection) -> Cluster:
    """The guest's API, as its admin."""
    return inspection.api


@pytest.fixture(scope="session")
def view(inspection: Inspection) -> ClusterView:
    """The guest's objects, once it has settled."""
    return inspection.view


@pytest.fixture(scope="session")
def facts(inspection: Inspection) -> dict[str, NodeFacts]:
    """Every machine's facts."""
    return inspection.facts
