"""Refuse plans that break their own rules: budgets, constraints of pinned cells, quarantine of cells, coverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.errors import BadInput, HarnessBug
from harness.model import Cell
from harness.plan.build import TierPlan
from harness.plan.lock import FILE
from harness.plan.quarantine import unmatched
from harness.plan.verify import Broken
from harness.spec import Spec, layers
from harness.spec.loader import refuse

MOST_OF_SCRATCH = 1.15
FEW = 2  # cells more than one from scratch that no plan is refused for
REMEDY = "raise the budget, narrow the tier's `where` or cover less"


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
    for found, broken in _broken(plans):
        cell = dict(found.cells[broken.number].values)
        if cell in spec.tiers[found.tier].pinned:
            at = ("tiers", found.tier, "pinned", spec.tiers[found.tier].pinned.index(cell))
            problems.append(document.problem(at, f"the cell breaks a constraint: {'; '.join(broken.why)}"))
    if {(p.tier, p.infra) for p in plans} == {(tier, infra) for tier in spec.tiers for infra in spec.infras}:
        problems += unmatched(spec.quarantine, {c.id: c.values for p in plans for c in p.cells}, directory)
    if problems:
        raise refuse(list(dict.fromkeys(problems)))
    wrong = [f"{p.tier} on {p.infra}: no {c}" for p in plans if p.proof is not None for c in p.proof.missing]
    wrong += [f"{p.tier} on {p.infra}: {p.cells[b.number].id}: {'; '.join(b.why)}" for p, b in _broken(plans)]
    if wrong:
        raise HarnessBug("the plan does not cover what it must", detail="\n".join(wrong), hint="please report this")


def longest(scratch: int) -> int:
    """Return how many cells a plan may have where one from scratch has so many."""
    return max(scratch + FEW, math.floor(MOST_OF_SCRATCH * scratch))


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
            f"{FILE}: plans of more than {MOST_OF_SCRATCH:g} times the cells of one from scratch: {', '.join(long)}",
            hint="run `vmatrix plan --repack --write` and commit what it changes",
        )


def _broken(plans: Sequence[TierPlan]) -> Iterator[tuple[TierPlan, Broken]]:
    return ((found, broken) for found in plans if found.proof is not None for broken in found.proof.broken)


def _excess(spec: Spec, plan: TierPlan, seconds: Callable[[Cell], float]) -> Iterator[tuple[str, str]]:
    budget = spec.tiers[plan.tier].budget
    if len(plan.cells) > budget.cells:
        yield "cells", f"the tier has {len(plan.cells)} cells, {len(plan.cells) - budget.cells} more than its budget"
    if not plan.cells:
        return
    largest = max(plan.cells, key=lambda cell: len(cell.machines))
    if len(largest.machines) > budget.machines:
        yield "machines", f"the cell {largest.id} has {len(largest.machines)} machines, the budget is {budget.machines}"
    longest = max(plan.cells, key=seconds)
    minutes = seconds(longest) / 60
    if minutes > budget.minutes:
        yield "minutes", f"the cell {longest.id} is expected to take {minutes:.0f} minutes, not {budget.minutes}"
