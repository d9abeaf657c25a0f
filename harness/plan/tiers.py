"""What the cells of a tier are: the pinned ones, and the planned ones of the lock.

A project without a lock of its own needs none: where the packaged lock does not fit its matrix, a tier is planned when
it is read, the same each time. Once written, the plan keeps its cells when the matrix grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from harness.model import Cell
from harness.plan.cells import make_cell
from harness.plan.goal import goal_of
from harness.plan.lock import Lock, current, load_lock, locked, runnable
from harness.plan.rotation import night_cells
from harness.spec.models import Spec
from harness.spec.project import matrix_dir


def tier_cells(
    spec: Spec, tier: str, infra: str, lock: Lock | None = None, *, night: date | None = None
) -> tuple[Cell, ...]:
    """Return the cells of a tier that an infra profile can run: pinned ones first, then planned ones.

    Args:
        lock: what `load_lock` returned; the project's own without it.
        night: that of a tier whose planned cells differ from night to night; None for the cells of the lock.

    Raises:
        BadInput: there is no such tier or infra profile; the lock is malformed, stale or wrong.
    """
    cells = {cell.id: cell for cell in (make_cell(spec, values) for values in runnable(spec, tier, infra))}
    if spec.tiers[tier].cover is not None:
        planned = list(_planned(spec, tier, infra, lock if lock is not None else load_lock(matrix_dir())))
        if night is not None:
            enough = len({*cells, *(cell.id for cell in planned)})
            planned = [make_cell(spec, values) for values in night_cells(spec, tier, infra, night, enough)]
        for cell in planned:
            cells.setdefault(cell.id, cell)
    return tuple(cells.values())


def all_tier_cells(spec: Spec, infra: str, lock: Lock | None = None) -> dict[str, tuple[Cell, ...]]:
    """Return the cells of every tier that an infra profile can run, by tier; raises what `tier_cells` does."""
    planned = any(tier.cover is not None for tier in spec.tiers.values())
    known = load_lock(matrix_dir()) if lock is None and planned else lock
    return {tier: tier_cells(spec, tier, infra, known) for tier in spec.tiers}


def _planned(spec: Spec, tier: str, infra: str, lock: Lock) -> Iterator[Cell]:
    if lock.own or current(spec, tier, infra, lock, goal_of(spec, tier, infra)):
        yield from (make_cell(spec, values, name) for name, values in locked(spec, tier, infra, lock).items())
    else:
        from harness.plan.build import plan_tier  # a lock that fits makes planning needless

        yield from plan_tier(spec, tier, infra, lock).planned
