"""Whether the culprit is named: planted values, pairs and triples in the plan of tier full, among failures by chance.

A simulation, no cluster: in cells with the culprit a check fails, and in every cell at the flake rate one of a few
checks by chance, with the same signature; at most 4 further cells are run, each of which flakes, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from harness.paths import project_dir
from harness.plan.cells import make_cell
from harness.plan.goal import Goal, goal_of
from harness.plan.tiers import tier_cells
from harness.report.suspects import Observation, Suspect, explained
from harness.schedule.durations import estimate
from harness.session.follow_up import further
from harness.spec import Spec, load_spec
from harness.spec.rules import Rulebook
from tests.bench.figures import Ledger

MATRICES, EMPTY = 200, 200
FLAKE = 0.02
FOLLOW_UPS = 4
TOGETHER = ("kubernetes", "topology", "scenario")
NAMED, ACCUSED = 95.0, 1.0  # percent
SECONDS = 2.0  # 200 cells and 200 checks
CHECKS = 5  # of each cell, of which a flake fails one
SIGNATURE = "no answer"

Row = Mapping[str, str]


@dataclass(frozen=True)
class World:
    """The cells of a plan, and what makes more of them."""

    spec: Spec
    goal: Goal
    cells: tuple[Row, ...]


def world_of(infra: str = "embedded") -> World:
    """Return the plan of tier full."""
    spec = load_spec(project_dir() / "matrix")
    cells = tuple(dict(cell.values) for cell in tier_cells(spec, "full", infra))
    return World(spec, goal_of(spec, "full", infra), cells)


def planted(world: World, random: Random) -> Row:
    """Return one value, pair or triple of the axes that are covered together, as some cell has it.

    Each of its values matters: one that the others leave no choice of would make another culprit of the same cells.
    """
    book = Rulebook.of(world.goal.rules)
    while True:
        axes = random.sample(TOGETHER, random.randint(1, 3))
        cell = random.choice(world.cells)
        culprit = {axis: cell[axis] for axis in axes}
        others = ({**culprit, axis: None} for axis in axes)
        if all(book.solve({a: _but(v, a, culprit, one) for a, v in world.goal.values.items()}) for one in others):
            return culprit


def _but(values: Sequence[str], axis: str, culprit: Row, others: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the values of an axis where a cell has all of the culprit's values but one."""
    if axis not in culprit:
        return tuple(values)
    return tuple(v for v in values if (v != culprit[axis]) == (others[axis] is None))


def trial(world: World, culprit: Row | None, random: Random, checks: int) -> tuple[list[Suspect], int]:
    """Return who is named in the end, for whatever check, and after how many further cells.

    Args:
        checks: how many each cell has; the culprit fails the first, and a flake one of them.
    """
    seen = [_observed(f"c{n}", cell, culprit, random, checks) for n, cell in enumerate(world.cells)]
    used = 0
    while True:
        rates = {f"suite: test_{n}": FLAKE / checks for n in range(checks)}
        failures = explained(seen, together=[TOGETHER], flakes=rates, goal=world.goal)
        row = further(world.goal, failures, random, partial(_cost, world)) if used < FOLLOW_UPS else None
        if row is None:
            return [one.named for one in failures if one.named is not None], used
        seen.append(_observed(f"f{used}", row, culprit, random, checks))
        used += 1


def _observed(name: str, cell: Row, culprit: Row | None, random: Random, checks: int) -> Observation:
    titles = [f"suite: test_{n}" for n in range(checks)]
    failed = {titles[0]} if culprit is not None and culprit.items() <= cell.items() else set()
    if random.random() < FLAKE:
        failed.add(random.choice(titles))
    return Observation(name, cell, frozenset((title, SIGNATURE) for title in failed), frozenset(titles) - failed)


def _cost(world: World, row: Row) -> float:
    return estimate(make_cell(world.spec, row))


def measure(ledger: Ledger, runs: int) -> None:
    """Measure how often the culprit is named, how often somebody else is, and how long that takes."""
    world = world_of()
    for checks, what in ((CHECKS, f"flakes in {CHECKS} checks"), (1, "flakes in the same check alone")):
        random = Random(51)  # noqa: S311 - a simulation, the same each time
        right = wrong = 0
        used = []
        for _ in range(MATRICES):
            culprit = planted(world, random)
            named, cells = trial(world, culprit, random, checks)
            used.append(cells)
            right += [dict(one.values) for one in named] == [culprit]
            wrong += any(dict(one.values) != culprit for one in named)
        accused = sum(bool(trial(world, None, random, checks)[0]) for _ in range(EMPTY))
        note = f"{right} of {MATRICES}; {sum(used) / MATRICES:.1f} further cells on average, at most {max(used)}"
        goal = f"goal: {NAMED:g} or more; " if checks > 1 else ""
        ledger.add(f"suspects: named exactly, {what}", "%", [100 * right / MATRICES], note=goal + note)
        share = 100 * (wrong + accused) / (MATRICES + EMPTY)
        note = f"{wrong} with a culprit, {accused} of {EMPTY} without one"
        ledger.add(f"suspects: somebody else accused, {what}", "%", [share], target=ACCUSED, note=note)
    random = Random(51)  # noqa: S311 - as above
    ledger.add("suspects: 200 cells, 200 checks", "s", [_timed(world, random) for _ in range(runs)], target=SECONDS)


def _timed(world: World, random: Random) -> float:
    checks = [f"suite: test_{n}" for n in range(200)]
    seen = []
    for number in range(200):
        cell = world.cells[number % len(world.cells)]
        failed = {(check, "x") for check in checks if random.random() < FLAKE}
        seen.append(Observation(f"c{number}", cell, frozenset(failed), frozenset(checks) - {c for c, _ in failed}))
    began = time.process_time()
    explained(seen, together=[TOGETHER], goal=world.goal)
    return time.process_time() - began
