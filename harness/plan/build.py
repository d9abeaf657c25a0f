"""Make the plan of tiers on infra profiles: what stays of the lock, what is new, and the proof of what it covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.model import Cell
from harness.plan.cells import make_cell
from harness.plan.cover import completed, cover, lower_bound
from harness.plan.goal import Goal, goal_of, tier_of
from harness.plan.lock import UNKNOWN, Figures, Lock, PlannedTier, digests, headed, not_runnable, render, runnable
from harness.plan.tiers import triples
from harness.plan.verify import Proof, verify
from harness.spec.models import Spec


@dataclass(frozen=True)
class TierPlan:
    """What runs in one tier on one infra profile.

    pinned, planned: the cells.  absent: a sentence for each pinned cell that the infra cannot run.
    kept, new: ids of planned cells that the lock had, and had not.  dropped: ids that it had and the plan has not.
    proof: what the cells cover; None for a tier of pinned cells only.
    inputs, later: the digests for the lock.  axes: those on which each of its lines has a value.
    figures: what the lock knows of it; nothing once the plan or what it is made from has changed.
    """

    tier: str
    infra: str
    goal: Goal
    pinned: tuple[Cell, ...]
    planned: tuple[Cell, ...]
    absent: tuple[str, ...]
    kept: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    proof: Proof | None
    inputs: str
    later: str | None = None
    axes: tuple[str, ...] = ()
    figures: Figures = UNKNOWN

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the tier's cells, pinned ones first."""
        return (*self.pinned, *self.planned)


def plan_tier(
    spec: Spec, tier: str, infra: str, lock: Lock | None = None, *, repack: bool = False, seed: int = 0
) -> TierPlan:
    """Plan one tier on one infra profile.

    Args:
        lock: every cell of it that the matrix still allows stays.  repack: nothing stays.
        seed: another one makes other new cells.

    Raises:
        BadInput: no such tier or infra profile; a cell's id is too long.
    """
    goal = goal_of(spec, tier, infra)
    pinned = runnable(spec, tier, infra)
    old = lock.cells(infra, tier) if lock is not None else {}
    values = [] if repack else list(_staying(goal, list(old.values()), pinned))
    planning = tier_of(spec, tier).cover is not None
    if planning:
        values += cover(goal, there=[*pinned, *values], seed=seed)
    cells = tuple(make_cell(spec, chosen) for chosen in (values if planning else ()))
    now = [cell.id for cell in cells]
    axes = headed(spec, lock)
    inputs, later = digests(spec, tier, infra, goal, axes)
    before = lock.tier(infra, tier) if lock is not None else None
    same = before is not None and (before.inputs, before.later) == (inputs, later) and set(now) == set(old)
    return TierPlan(
        tier=tier,
        infra=infra,
        goal=goal,
        pinned=tuple(make_cell(spec, chosen) for chosen in pinned),
        planned=cells,
        absent=not_runnable(spec, tier, infra),
        kept=tuple(c for c in now if c in old),
        new=tuple(c for c in now if c not in old),
        dropped=tuple(c for c in old if c not in now),
        proof=verify(goal, [*pinned, *values]) if planning else None,
        inputs=inputs,
        later=later,
        axes=axes,
        figures=before.figures if before is not None and same else UNKNOWN,
    )


def measured(spec: Spec, plan: TierPlan, lock: Lock | None = None, *, nights: bool = False) -> TierPlan:
    """Return a plan with what is not known of it yet: how long one from scratch is, and what several nights cover.

    Args:
        lock: if it is not the project's own, the plan from scratch is taken where it is shorter.
        nights: whether nights are planned to count what they cover, where they differ; that takes a minute.
    """
    if plan.proof is not None and plan.figures.scratch is None:
        scratch = plan_tier(spec, plan.tier, plan.infra, lock, repack=True) if plan.kept else plan
        plan = scratch if lock is not None and not lock.own and len(scratch.cells) < len(plan.cells) else plan
        plan = replace(plan, figures=Figures(scratch=str(len(scratch.cells)), least=str(lower_bound(plan.goal))))
    if nights and plan.figures.month is None and spec.tiers[plan.tier].rotates and plan.cells:
        counts = triples(spec, plan.tier, plan.infra, len(plan.cells))
        known = {name: str(number) for name, number in counts.items()}
        plan = replace(plan, figures=plan.figures.model_copy(update=known))
    return plan


def lock_text(spec: Spec, plans: Sequence[TierPlan]) -> str:
    """Return the text of the lock that holds these plans; tiers of pinned cells only need none."""
    planned: dict[str, dict[str, PlannedTier]] = {}
    for plan in plans:
        if plan.proof is not None:
            planned.setdefault(plan.infra, {})[plan.tier] = PlannedTier(
                plan.inputs, plan.later, plan.planned, plan.figures
            )
    axes = next((plan.axes for plan in plans if plan.axes), tuple(axis.name for axis in spec.axes))
    later = {axis.name: axis.default for axis in spec.axes if axis.name not in axes and axis.default is not None}
    return render(axes, later, planned)


def _staying(
    goal: Goal, old: Sequence[Mapping[str, str]], pinned: Sequence[Mapping[str, str]]
) -> Iterator[dict[str, str]]:
    """Yield those locked cells that the matrix still allows, each once.

    On an axis that is new to them they get its default, or any value where it has none.
    """
    seen = [dict(cell) for cell in pinned]
    known = [{axis: value for axis, value in {**goal.defaults, **cell}.items() if axis in goal.values} for cell in old]
    for cell in completed(goal, known):
        if cell not in seen and goal.allows(cell):
            seen.append(cell)
            yield cell
