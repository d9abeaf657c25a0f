"""What a tier's plan costs more than its budget allows, by file and line of matrix/tiers.yml."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.model import Cell
from harness.plan.build import TierPlan
from harness.spec import lines
from harness.spec.models import Spec

REMEDY = "raise the budget, narrow the tier's `where` or cover less"


def over_budget(
    spec: Spec, plans: Sequence[TierPlan], directory: Path, seconds: Callable[[Cell], float]
) -> list[lines.Problem]:
    """Return each budget that a plan exceeds.

    Args:
        directory: matrix/, where tiers.yml lies.
        seconds: how long a cell is expected to take.
    """
    document, _ = lines.read(directory / "tiers.yml")
    return [
        document.problem(("tiers", plan.tier, "budget", key), f"on {plan.infra} {message}; {REMEDY}")
        for plan in plans
        for key, message in _excess(spec, plan, seconds)
    ]


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
