"""The fixtures that checks are written with: cells, their life, and a guest cluster with its machines and API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.cell.network import mirror_of
from harness.plugin.state import CELLS, PLAN

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from harness.cell.life import Life
    from harness.checks import Hosts, Inventory
    from harness.kube import Cluster
    from harness.model import Cell, GuestCluster, Mirror
    from harness.session import Cells
    from harness.spec.models import Timeouts, Waiver
    from harness.validate.expected import ExpectedGuest
    from harness.validate.facts.cluster import ClusterView
    from harness.validate.facts.node import NodeFacts
    from harness.validate.inspection import Inspection
    from harness.validate.phases.monitor import PhaseMonitor
    from harness.validate.probes import Probes


@pytest.fixture(scope="session")
def cell(request: pytest.FixtureRequest) -> Cell:
    """The cell of the check."""
    parameter: Cell = request.param
    return parameter


@pytest.fixture(scope="session")
def phase(request: pytest.FixtureRequest) -> int:
    """The index of the phase after which the check runs."""
    parameter: int = request.param
    return parameter


@pytest.fixture(scope="session")
def cells(request: pytest.FixtureRequest) -> Cells:
    """The cells of this process."""
    opened = request.config.stash.get(CELLS, None)
    if opened is None:
        raise pytest.UsageError("these checks need cells: pass --tier TIER or --cell CELL")
    return opened


@pytest.fixture(scope="session")
def life(cell: Cell, cells: Cells) -> Life:
    """The cell's life; its verbs can be called any number of times."""
    return cells.life(cell)


@pytest.fixture(scope="session")
def monitor(cell: Cell, cells: Cells) -> PhaseMonitor:
    """What was observed during the cell's phases: the state before each, the answers during it."""
    return cells.monitor(cell)


@pytest.fixture(scope="session")
def guest(life: Life, phase: int) -> GuestCluster:
    """The guest cluster after the phase. A failed step is reported by its own item only."""
    from harness.validate.findings import NotRun

    if life.failure is not None:
        raise NotRun(life.failure.summary)
    return life.apply(phase)


@pytest.fixture(scope="session")
def mirror(cell: Cell, cells: Cells) -> Mirror:
    """Where the cell's guests find binaries and images."""
    return mirror_of(cells.site.mirror, cell.vars)


@pytest.fixture(scope="session")
def timeouts(cells: Cells) -> Timeouts:
    """The numbers of matrix/timeouts.yml, scaled, in seconds."""
    return cells.site.timeouts


@pytest.fixture(scope="session")
def artifact(cells: Cells) -> Callable[[str, str], Path]:
    """Return the directory of an artifact's files: artifact("kubectl", "1.36.3")."""
    return cells.artifact


@pytest.fixture(scope="session")
def cell_dir(life: Life) -> Path:
    """The cell's directory for logs and results."""
    return life.attempt.directory


@pytest.fixture(scope="session")
def inspection_without_api(guest: GuestCluster, cells: Cells, timeouts: Timeouts) -> Inspection:
    """The guest under inspection, whether its API answers or not."""
    from harness.validate.inspection import Inspection

    leaves = cells.site.product_of(guest.environment.cell).cluster
    return Inspection(guest, leaves, ssh_options=cells.connect(guest.environment), timeouts=timeouts)


@pytest.fixture(scope="session")
def inspection(inspection_without_api: Inspection) -> Inspection:
    """The guest under inspection; its API answers."""
    inspection_without_api.wait_for_api()
    return inspection_without_api


@pytest.fixture(scope="session")
def expected(inspection: Inspection) -> ExpectedGuest:
    """What the guest must look like."""
    return inspection.expected


@pytest.fixture(scope="session")
def api(inspection: Inspection) -> Cluster:
    """The guest's API, as its admin."""
    return inspection.api


@pytest.fixture(scope="session")
def kubernetes_client(api: Cluster) -> ApiClient:
    """The guest's API for the models of the Python client of Kubernetes, as its admin."""
    from harness.kube.typed_client import typed_client

    return typed_client(api)


@pytest.fixture(scope="session")
def view(inspection: Inspection) -> ClusterView:
    """The guest's objects, once it has settled."""
    return inspection.view


@pytest.fixture(scope="session")
def facts(inspection: Inspection) -> dict[str, NodeFacts]:
    """Every machine's facts."""
    return inspection.facts


@pytest.fixture(scope="session")
def hosts(inspection_without_api: Inspection) -> Hosts:
    """The machines as testinfra hosts, by name; commands run as root. Nothing is connected before it is used."""
    return inspection_without_api.hosts


@pytest.fixture(scope="session")
def inventory(guest: GuestCluster, cells: Cells) -> Inventory:
    """The machines, groups and variables as the product was given them."""
    from harness.checks import Inventory
    from harness.machines.inventory import inventory as plain

    environment = guest.environment
    return Inventory.of(environment, plain(environment, cells.site.product_of(environment.cell)), guest.expected)


@pytest.fixture(scope="session")
def waivers(request: pytest.FixtureRequest) -> tuple[Waiver, ...]:
    """The controls that the project does not want to meet."""
    return request.config.stash[PLAN].project.spec.waivers


@pytest.fixture(scope="module")
def probes(inspection: Inspection, mirror: Mirror, timeouts: Timeouts) -> Iterator[Probes]:
    """Probe pods on every node: created before a module's first check that asks for them, removed after its last."""
    from harness.until import Deadline
    from harness.validate.conformance.curated import AGNHOST
    from harness.validate.probes import place_probes, remove_probes

    image = inspection.probe_image(AGNHOST, mirror.images)
    try:
        yield place_probes(inspection.api, inspection.expected.nodes, image, timeouts)
    finally:
        remove_probes(inspection.api, Deadline.after(timeouts.probe_remove))
