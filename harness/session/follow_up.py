"""Further cells that tell suspects apart: possible ones with their values, the cheapest of those that tell most."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from harness.model import Cell
from harness.plan import make_cell
from harness.plan.goal import Goal, goal_of
from harness.report.results import RunResult
from harness.report.suspects import Explained, Suspect, explained, of_run, worth_showing
from harness.spec import Spec
from harness.spec.rules import Row, Rulebook

CANDIDATES = 300  # cells of which the best is taken
MOST_JOINED = 8  # suspects whose values one candidate has
SURE = 0.97  # a suspect that is so likely needs no further cell
AS_GOOD = 0.02  # bits, by which a cell may tell less than the best and be taken because it is cheaper


@dataclass(frozen=True)
class FollowUp:
    """What may explain the failures of runs, and the cell that tells the suspects apart; None where none does."""

    failures: tuple[Explained, ...]
    cell: Cell | None


def follow_up(spec: Spec, infra: str, results: Sequence[RunResult], seconds: Callable[[Cell], float]) -> FollowUp:
    """Return what may explain the failures of some runs together, and the next cell to run.

    Args:
        seconds: what a cell is expected to take.
    """
    seen = [one for result in results for one in of_run(result)]
    goal = goal_of(spec, None, infra)
    failures = tuple(worth_showing(explained(seen, together=spec.together, goal=goal)))
    random = Random(len(seen))  # noqa: S311 - the same candidates each time
    row = further(goal, failures, random, lambda row: seconds(make_cell(spec, row)))
    return FollowUp(failures, make_cell(spec, row) if row is not None else None)


def further(goal: Goal, failures: Sequence[Explained], random: Random, seconds: Callable[[Row], float]) -> Row | None:
    """Return the cell that tells most of the suspects of all failures; None where none tells anything.

    A candidate has the values of a few suspects, drawn by their likelihood, and any on the other axes. What it tells of
    a failure is the entropy of whether it will fail so: one bit where its suspects have a half of the likelihood. That
    counts as the share of what there is to be told of the failure, so that what a single cell settles comes first, and
    by how likely there is a culprit at all.
    """
    unsure = [(_worth(one), s) for one in failures if (s := _matrix(one)) and s[0].share < SURE]
    book, pool = Rulebook.of(goal.rules), [suspect for _, suspects in unsure for suspect in suspects]
    shares = [suspect.share for suspect in pool]
    rows = (
        book.solve(_domains(goal.values, random.choices(pool, shares, k=random.randint(1, MOST_JOINED)), random))
        for _ in range(CANDIDATES if pool else 0)
    )
    told = [(sum(weight * _entropy(s, row) for weight, s in unsure), row) for row in rows if row is not None]
    best = max((bits for bits, _ in told), default=0.0)
    if best <= AS_GOOD:
        return None
    return min((row for bits, row in told if bits >= best - AS_GOOD), key=seconds)


def _matrix(found: Explained) -> list[Suspect]:
    return [suspect for suspect in found.suspects if not suspect.around]


def _worth(found: Explained) -> float:
    """Return what a bit is worth: how likely there is a culprit, by the bits that it takes to find it."""
    rest = [suspect.share for suspect in found.suspects]
    doubt = -sum(p * math.log2(p) for p in (*rest, found.chance) if p > 0)
    return (1 - found.chance) / max(doubt, AS_GOOD)


def _domains(
    values: Mapping[str, Sequence[str]], suspects: Sequence[Suspect], random: Random
) -> dict[str, tuple[str, ...]]:
    """Return what a cell may have that has the values of the first suspect, and of the others that go with it."""
    chosen: dict[str, str] = {}
    for suspect in suspects:
        if all(chosen.get(axis, value) == value and value in values[axis] for axis, value in suspect.values):
            chosen.update(suspect.values)
    return {
        axis: (chosen[axis],) if axis in chosen else tuple(random.sample(known, len(known)))
        for axis, known in values.items()
    }


def _entropy(suspects: Sequence[Suspect], row: Row) -> float:
    mass = sum(s.share for s in suspects if all(row.get(axis) == value for axis, value in s.values))
    return -sum(p * math.log2(p) for p in (mass, 1 - mass) if 0 < p < 1)
