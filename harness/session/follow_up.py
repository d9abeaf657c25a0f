"""Further cells that tell suspects apart: possible ones with the suspects' values, the cheapest of those that halve."""

from __future__ import annotations

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

CANDIDATES = 250  # cells of which the best is taken
MOST_JOINED = 6  # suspects whose values one candidate has
SURE = 0.97  # a suspect that is so likely needs no further cell
TELLS = 0.02  # the least likelihood of what a cell tells apart


@dataclass(frozen=True)
class FollowUp:
    """A failure with what may explain it, and the cell that tells the suspects apart; None where none does."""

    found: Explained
    cell: Cell | None


def follow_ups(
    spec: Spec, infra: str, results: Sequence[RunResult], seconds: Callable[[Cell], float]
) -> tuple[FollowUp, ...]:
    """Return what may explain the failures of some runs together, each with the next cell to run.

    Args:
        seconds: what a cell is expected to take.
    """
    seen = [one for result in results for one in of_run(result)]
    goal = goal_of(spec, None, infra)

    def cost(row: Row) -> float:
        return seconds(make_cell(spec, row))

    made = []
    for found in worth_showing(explained(seen, together=spec.together)):
        row = further(goal, found, Random(len(seen)), cost)  # noqa: S311 - the same candidates each time
        made.append(FollowUp(found, make_cell(spec, row) if row is not None else None))
    return tuple(made)


def further(goal: Goal, found: Explained, random: Random, seconds: Callable[[Row], float]) -> Row | None:
    """Return the cell that comes nearest to halving what may explain a failure; None where none tells anything.

    A candidate has the values of a few suspects, drawn by their likelihood, and any on the other axes.
    """
    suspects = [suspect for suspect in found.suspects if not suspect.around]
    if not suspects or suspects[0].share >= SURE:
        return None
    book = Rulebook.of(goal.rules)
    shares = [suspect.share for suspect in suspects]
    ranked: list[tuple[float, int, Row]] = []
    for number in range(CANDIDATES):
        chosen = random.choices(suspects, shares, k=random.randint(1, MOST_JOINED))
        row = book.solve(_domains(goal.values, chosen, random))
        mass = _mass(suspects, row) if row is not None else 0.0
        if row is not None and TELLS < mass < 1 - TELLS:
            ranked.append((round(abs(mass - 0.5), 2), number, row))
    if not ranked:
        return None
    best = min(distance for distance, *_ in ranked)
    return min((row for distance, _, row in ranked if distance == best), key=seconds)


def _domains(
    values: Mapping[str, Sequence[str]], suspects: Sequence[Suspect], random: Random
) -> dict[str, tuple[str, ...]]:
    domains = {axis: tuple(random.sample(known, len(known))) for axis, known in values.items()}
    for axis, value in (value for suspect in suspects for value in suspect.values):
        if len(domains[axis]) > 1 and value in domains[axis]:
            domains[axis] = (value,)
    return domains


def _mass(suspects: Sequence[Suspect], row: Row) -> float:
    return sum(s.share for s in suspects if all(row.get(axis) == value for axis, value in s.values))
