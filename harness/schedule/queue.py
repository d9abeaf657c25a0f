"""In which order a run's cells are tried: longest expected first; one that does not fit now does not hold up the rest.

Why not anything cleverer: docs/decisions/schedule-order.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.errors import HarnessBug
from harness.model import Cell


class CellQueue:
    """The cells of a run that have not started, in the order in which they are to be tried."""

    def __init__(self, cells: Iterable[Cell], seconds: Callable[[Cell], float]) -> None:
        """Order the cells by expected `seconds`; of equally long ones that with more memory comes first."""

        self._waiting = sorted(cells, key=lambda c: (-seconds(c), -sum(m.memory_mib for m in c.machines), c.id))

    def __len__(self) -> int:
        """Return how many cells have not started."""
        return len(self._waiting)

    @property
    def waiting(self) -> tuple[Cell, ...]:
        """Return the cells that have not started, the first to be tried first."""
        return tuple(self._waiting)

    def take(self, cell: Cell) -> None:
        """Take a cell that was found to fit out of the queue."""
        if cell not in self._waiting:
            raise HarnessBug(f"cell {cell.id} was to start but is not waiting")
        self._waiting.remove(cell)
