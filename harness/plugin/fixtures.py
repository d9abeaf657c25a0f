"""The fixtures that checks are written with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.cell.network import mirror_of
from harness.plugin.state import CELLS

if TYPE_CHECKING:
    from harness.cell.life import Life
    from harness.model import Cell, GuestCluster, Mirror
    from harness.session import Cells
    from harness.spec.models import Timeouts
    from harness.validate.phases.witness import Witness


@pytest.fixture(scope="session")
def cell(request: pytest.FixtureRequest) -> Cell:
    """The cell of the check."""
    found: Cell = request.param
    return found


@pytest.fixture(scope="session")
def phase(request: pytest.FixtureRequest) -> int:
    """The index of the phase after which the check runs."""
    found: int = request.param
    return found


@pytest.fixture(scope="session")
def cells(request: pytest.FixtureRequest) -> Cells:
    """The cells of this process."""
    found = request.config.stash.get(CELLS, None)
    if found is None:
        raise pytest.UsageError("these checks need cells: pass --tier TIER or --cell CELL")
    return found


@pytest.fixture(scope="session")
def life(cell: Cell, cells: Cells) -> Life:
    """The cell's life; its verbs can be called any number of times."""
    return cells.life(cell)


@pytest.fixture(scope="session")
def witness(cell: Cell, cells: Cells) -> Witness:
    """What was observed during the cell's phases: the state before each, the answers during it."""
    return cells.witness(cell)


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
