"""Make the plan of tiers on infra profiles: what stays of the lock, what is new, and the proof of what it covers.

A plan that breaks its own rules is refused: over budget, much longer than one from scratch, or with a gap in its proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import BadInput, HarnessBug
from harness.model import Cell
from harness.plan.cells import make_cell
from harness.plan.cover import completed, cover, lower_bound
from harness.plan.goal import Goal, goal_of, tier_of
from harness.plan.lock import FILE as LOCK_FILE
from harness.plan.lock import UNKNOWN, Figures, Lock, PlannedTier, digests, headed, not_runnable, render, runnable
from harness.plan.quarantine import unmatched
from harness.plan.tiers import triples
from harness.plan.verify import Broken, Proof, verify
from harness.spec import layers
from harness.spec.loader import refuse
from harness.spec.models import Spec

MOST_OF_SCRATCH = 1.15
FEW = 2  # cells more than one from scratch that no plan is refused for
REMEDY = "raise the budget, narrow the tier's `where` or cover less"


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


def _staying(
    goal: Goal, old: Sequence[Mapping[str, str]], pinned: Sequence[Mapping[str, str]]
) -> Iterator[dict[str, str]]:
    """Yield those locked cells that the matrix still allows, each once.

    On an axis that is new to them they get its default, or any value where it has none.
    """
    cells = [dict(cell) for cell in pinned]
    known = [{axis: value for axis, value in {**goal.defaults, **cell}.items() if axis in goal.values} for cell in old]
    for cell in completed(goal, known):
        if cell not in cells and goal.allows(cell):
            cells.append(cell)
            yield cell


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


def refuse_unsound(spec: Spec, plans: Sequence[TierPlan], directory: Path, seconds: Callable[[Cell], float]) -> None:
    """Check plans of some or all tiers; `directory` is matrix/, `seconds` says how long a cell is expected to take.

    Raises:
        BadInput: a plan is over budget, a pinned cell cannot be, or quarantine names a cell that no tier has.
        HarnessBug: the proof of a plan has a gap.
    """
    document, _ = layers.read(directory, "tiers.yml")
    problems = [
        document.problem(("tiers", plan.tier, "budget", key), f"on {plan.infra} {message}; {REMEDY}")
        for plan in plans
        for key, message in _excess(spec, plan, seconds)
    ]
    for plan_of_tier, broken in _broken(plans):
        cell = dict(plan_of_tier.cells[broken.number].values)
        if cell in spec.tiers[plan_of_tier.tier].pinned:
            at = ("tiers", plan_of_tier.tier, "pinned", spec.tiers[plan_of_tier.tier].pinned.index(cell))
            problems.append(document.problem(at, f"the cell breaks a constraint: {'; '.join(broken.why)}"))
    if {(p.tier, p.infra) for p in plans} == {(tier, infra) for tier in spec.tiers for infra in spec.infras}:
        problems += unmatched(spec.quarantine, {c.id: c.values for p in plans for c in p.cells}, directory)
    if problems:
        raise refuse(list(dict.fromkeys(problems)))
    wrong = [f"{p.tier} on {p.infra}: no {c}" for p in plans if p.proof is not None for c in p.proof.missing]
    wrong += [f"{p.tier} on {p.infra}: {p.cells[b.number].id}: {'; '.join(b.why)}" for p, b in _broken(plans)]
    if wrong:
        raise HarnessBug("the plan does not cover what it must", detail="\n".join(wrong), hint="please report this")


def _broken(plans: Sequence[TierPlan]) -> Iterator[tuple[TierPlan, Broken]]:
    return ((plan, broken) for plan in plans if plan.proof is not None for broken in plan.proof.broken)


def _excess(spec: Spec, plan: TierPlan, seconds: Callable[[Cell], float]) -> Iterator[tuple[str, str]]:
    budget = spec.tiers[plan.tier].budget
    if len(plan.cells) > budget.cells:
        yield "cells", f"the tier has {len(plan.cells)} cells, {len(plan.cells) - budget.cells} more than its budget"
    if not plan.cells:
        return
    largest = max(plan.cells, key=lambda cell: len(cell.machines))
    if len(largest.machines) > budget.machines:
        yield "machines", f"the cell {largest.id} has {len(largest.machines)} machines, the budget is {budget.machines}"
    slowest = max(plan.cells, key=seconds)
    minutes = seconds(slowest) / 60
    if minutes > budget.minutes:
        yield "minutes", f"the cell {slowest.id} is expected to take {minutes:.0f} minutes, not {budget.minutes}"


def refuse_long(plans: Sequence[TierPlan]) -> None:
    """Check that no plan is much longer than one from scratch: cells that stay when the matrix grows add up.

    Raises:
        BadInput: one is.
    """
    long = [
        f"{p.tier} on {p.infra}: {len(p.cells)} cells, {p.figures.scratch} from scratch"
        for p in plans
        if p.figures.scratch is not None and len(p.cells) > longest(int(p.figures.scratch))
    ]
    if long:
        raise BadInput(
            f"{LOCK_FILE}: plans of more than {MOST_OF_SCRATCH:g} times the cells of one from scratch: "
            f"{', '.join(long)}",
            hint="run `vmatrix plan --repack --write` and commit what it changes",
        )


def longest(scratch: int) -> int:
    """Return how many cells a plan may have where one from scratch has so many."""
    return max(scratch + FEW, math.floor(MOST_OF_SCRATCH * scratch))
