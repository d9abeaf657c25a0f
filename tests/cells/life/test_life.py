"""The steps of a cell's life as items: a failed step is reported here, once, and its checks are not run."""

from __future__ import annotations

import pytest

from harness.cell.existing import CellSelector, find
from harness.cell.life import Life
from harness.model import Cell
from harness.session import Cells


@pytest.mark.step("provision")
def test_provision(cell: Cell, cells: Cells) -> None:
    """Every machine of the topology exists and accepts a login."""
    environment = cells.begin(cell).provision()
    assert [m.name for m in environment.machines] == [m.name for m in cell.machines]


@pytest.mark.step("phase")
def test_phase(cell: Cell, life: Life, phase: int) -> None:
    """The phase's playbook succeeds; if there is a cluster afterwards, only this user can read its admin kubeconfig."""
    if life.failure is not None:
        pytest.skip(f"not run: {life.failure.summary.splitlines()[0]}")
    guest = life.apply(phase)
    if cell.phases[phase].cluster:
        assert guest.kubeconfig.stat().st_mode & 0o077 == 0


@pytest.mark.step("teardown")
def test_teardown(cell: Cell, life: Life, cells: Cells) -> None:
    """Everything of the cell is collected, deleted and gone; or the cell is kept as requested."""
    cells.close(cell)
    assert life.torn_down or life.kept


@pytest.mark.step("gone")
def test_gone(cell: Cell, life: Life, cells: Cells) -> None:
    """The infra cluster has no object of the cell left, whatever the teardown reported."""
    if life.kept:
        pytest.skip("not run: the cell is kept")
    where = cells.site.namespace
    assert find(cells.site.cluster, CellSelector(run=cells.plan.run, cell=cell.id, namespace=where)) == []
