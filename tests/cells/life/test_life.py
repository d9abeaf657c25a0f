"""The steps of a cell's life as items: a step that fails says so here, once, and the checks are not run."""

from __future__ import annotations

import pytest

from harness.cell.life import Life
from harness.model import Cell
from harness.session import Session


@pytest.mark.step("provision")
def test_provision(life: Life) -> None:
    """Every machine of the topology exists and can be logged in to."""
    environment = life.provision()
    assert [m.name for m in environment.machines] == [m.name for m in life.cell.machines]


@pytest.mark.step("deploy")
def test_deploy(life: Life) -> None:
    """The product's deploy phase ends well on every machine and leaves an admin kubeconfig."""
    if life.failure is not None:
        pytest.skip(f"not run: {life.failure.summary}")
    assert life.deploy().kubeconfig.stat().st_mode & 0o077 == 0


@pytest.mark.step("teardown")
def test_teardown(cell: Cell, life: Life, vmatrix_session: Session) -> None:
    """Everything of the cell is collected, taken away and gone; or the failed cell is kept as asked."""
    vmatrix_session.close(cell)
    assert life.torn_down
