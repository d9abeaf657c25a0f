"""Which cells a person means: a tier, narrowed by ids and globs."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from harness.errors import BadInput, NothingSelected
from harness.model import Cell
from harness.plan.cells import make_cell
from harness.spec.crossref import unknown
from harness.spec.models import Spec


def tier_cells(spec: Spec, tier: str) -> tuple[Cell, ...]:
    """Return the cells of a tier in its order.

    Raises:
        BadInput: there is no such tier.
    """
    if tier not in spec.tiers:
        raise BadInput(unknown("tier", tier, spec.tiers), hint="`vmatrix list` shows the tiers and their cells")
    return tuple(make_cell(spec, values) for values in spec.tiers[tier].pinned)


def all_cells(spec: Spec) -> tuple[Cell, ...]:
    """Return the cells of all tiers, each once."""
    return tuple({cell.id: cell for tier in spec.tiers for cell in tier_cells(spec, tier)}.values())


def select(spec: Spec, *, tier: str | None, patterns: Sequence[str] = ()) -> tuple[Cell, ...]:
    """Return the cells of a tier (of all tiers without one) whose id matches one of the patterns (all without any).

    Raises:
        BadInput: unknown tier.  NothingSelected: a pattern matches no cell.
    """
    cells = tier_cells(spec, tier) if tier else all_cells(spec)
    for pattern in patterns:
        if not fnmatch.filter([c.id for c in cells], pattern):
            raise NothingSelected(
                f"no cell matches {pattern!r} in {'tier ' + tier if tier else 'any tier'}",
                hint="`vmatrix list` shows the cells: " + ", ".join(c.id for c in cells),
            )
    if patterns:
        cells = tuple(c for c in cells if any(fnmatch.fnmatchcase(c.id, p) for p in patterns))
    if not cells:
        raise NothingSelected("the selection has no cell", hint="`vmatrix list` shows the tiers and their cells")
    return cells
