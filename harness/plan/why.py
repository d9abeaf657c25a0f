"""Say why a cell is in its tier: what no other cell covers, and what it is the first to cover."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.errors import BadInput
from harness.plan.goal import goal_of
from harness.plan.lock import Lock, runnable
from harness.plan.tiers import tier_cells
from harness.plan.verify import Combination, had, wanted_by_kind
from harness.spec import Spec


@dataclass(frozen=True)
class Why:
    """Why a cell is in a tier.

    pinned: it is in whatever it covers.  only: combinations that no other cell of the tier has.
    first: those that no cell before it has; `only` is a part of them. Both empty where nothing is planned.
    """

    tier: str
    pinned: bool
    only: tuple[Combination, ...]
    first: tuple[Combination, ...]


def why(spec: Spec, tier: str, infra: str, cell_id: str, lock: Lock | None = None) -> Why:
    """Return why a cell is in a tier on an infra profile; BadInput when it is not, or as `tier_cells`."""
    cells = tier_cells(spec, tier, infra, lock)
    number = next((n for n, cell in enumerate(cells) if cell.id == cell_id), None)
    if number is None:
        raise BadInput(
            f"tier {tier} has no cell {cell_id!r} on {infra}", hint=f"`vmatrix list --tier {tier}` shows its cells"
        )
    pinned = dict(cells[number].values) in runnable(spec, tier, infra)
    if spec.tiers[tier].cover is None:
        return Why(tier, pinned, (), ())
    goal = goal_of(spec, tier, infra)
    wanted = dict.fromkeys(c for _, combinations in wanted_by_kind(goal) for c in combinations)
    has = [tuple(had(goal, cell.values, wanted)) for cell in cells]
    times = Counter(combination for found in has for combination in found)
    before = {combination for found in has[:number] for combination in found}
    return Why(
        tier=tier,
        pinned=pinned,
        only=tuple(c for c in has[number] if times[c] == 1),
        first=tuple(c for c in has[number] if c not in before),
    )
