"""The items that an interrupted session did not get to, in pytest's own summary and by cell in ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from signal import Signals
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.session import Run


@dataclass
class Unreached:
    """An item without a result among pytest's counts, whose other entries are reports."""

    nodeid: str


def note_unreached(run: Run, config: pytest.Config, collection: Sequence[str]) -> None:
    """Count the items without a result, if a signal ended the run; `collection`: the names of all of them."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if not run.signalled or terminal is None:
        return
    reached = {report.nodeid for reports in terminal.stats.values() for report in reports if hasattr(report, "when")}
    left = [name for name in collection if name not in reached]
    run.not_run = by_cell([cell.id for cell in run.plan.cells], left)
    if left:
        entries = [Unreached(name) for name in left]
        terminal._add_stats(f"not run (interrupted by {Signals(run.signalled).name})", entries)


def by_cell(cells: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    """Return how many of the items are each cell's; cells without any are left out."""
    names = list(names)
    counts = {cell: sum(f"[{cell}]" in name or f"[{cell}-" in name for name in names) for cell in cells}
    return {cell: count for cell, count in counts.items() if count}
