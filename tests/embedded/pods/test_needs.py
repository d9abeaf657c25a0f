"""A run brings pods up where one of its cells needs them, on an instance that runs already too, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness import providers
from harness.infra import pods
from harness.infra.host.status import State
from harness.infra.pods import NAME, NAMESPACE_NAME
from harness.kube.client import Cluster
from harness.kube.resources import NODE, VMI
from harness.model import Cell
from harness.paths import packaged_dir
from harness.plan.tiers import tier_cells
from harness.providers.embedded import EmbeddedProvider
from harness.spec.models import AxisValue
from harness.spec.project import Project
from harness.spec.settings import Settings
from tests.embedded.conftest import running

AXIS = "runtime"


@pytest.fixture
def infra() -> Iterator[EmbeddedProvider]:
    """Return a running instance that runs no pods."""
    with running("-needs") as provider:
        yield provider


def a_run(infra: EmbeddedProvider) -> tuple[Project, Cell, Cell]:
    """Return a project, a cell that needs no pods, and the same cell with a value that does."""
    project = Project.load(Settings(infra_name=infra.layout.name))
    cell = tier_cells(project.spec, "smoke", "embedded")[0]
    usual = project.spec.value(AXIS, cell.values[AXIS])
    added = AxisValue.model_validate({**usual.model_dump(by_alias=True), "id": "in-pods", "needs": ["pods"]})
    axes = tuple(
        axis.model_copy(update={"values": (*axis.values, added)}) if axis.name == AXIS else axis
        for axis in project.spec.axes
    )
    spec = project.spec.model_copy(update={"axes": axes})
    with_pods = replace(cell, values={**cell.values, AXIS: added.id})
    return Project(packaged_dir(), spec, project.settings), cell, with_pods


def test_pods_come_with_the_first_cell_that_needs_them(infra: EmbeddedProvider) -> None:
    project, plain, with_pods = a_run(infra)
    api = Cluster.from_kubeconfig(infra.kubeconfig())

    providers.open_site(project, [plain], progress=print)
    assert api.get(NODE, infra.layout.pods_node) is None
    assert infra.status().pods == ""

    uids = []
    for _ in range(2):
        providers.open_site(project, [plain, with_pods], progress=print)
        assert pods.nodes_are_ready(api.get(NODE, infra.layout.pods_node))
        uids.append((api.get(VMI, NAME, NAMESPACE_NAME) or {})["metadata"]["uid"])
    assert uids[0] == uids[1], "the second run has found it"
    seen = infra.status()
    assert (seen.pods, seen.state) == (infra.layout.pods_node, State.UP)
