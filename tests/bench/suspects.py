"""Whether the culprit is named: planted values, pairs and triples in the plan of tier full, among failures by chance.

A simulation, no cluster: cells with the culprit fail, every other fails at the flake rate; at most 4 further cells are
run, each of which flakes, too. Cells are those of the lock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from harness.paths import project_dir
from harness.plan.cells import make_cell
from harness.plan.goal import Goal, goal_of
from harness.plan.tiers import tier_cells
from harness.report.suspects import Explained, Observation, Suspect, explained, halving
from harness.schedule.durations import estimate
from harness.spec import Spec, load_spec
from harness.spec.rules import Rulebook
from tests.bench.figures import Ledger

MATRICES, EMPTY = 200, 200
FLAKE = 0.02
FOLLOW_UPS = 4
SURE = 0.97  # from here on no further cell is run
CANDIDATES = 250
TOGETHER = ("kubernetes", "topology", "scenario")
NAMED, ACCUSED = 95.0, 1.0  # percent
SECONDS = 2.0  # 200 cells and 200 checks
CHECK, SIGNATURE = "network: test_pods", "no answer"

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


def trial(world: World, culprit: Row | None, random: Random) -> tuple[Suspect | None, int]:
    """Return who is named in the end, and after how many further cells."""
    seen = [_observed(f"c{n}", cell, culprit, random) for n, cell in enumerate(world.cells)]
    for used in range(FOLLOW_UPS + 1):
        found = _failure(seen)
        sure = found is not None and found.suspects and found.suspects[0].share >= SURE
        if found is None or sure or used == FOLLOW_UPS:
            return (found.named if found is not None else None), used
        further = _further(world, found, random)
        if further is None:
            return None, used
        seen.append(_observed(f"f{used}", further, culprit, random))
    raise AssertionError("unreachable")


def _observed(name: str, cell: Row, culprit: Row | None, random: Random) -> Observation:
    failed = (culprit is not None and culprit.items() <= cell.items()) or random.random() < FLAKE
    return Observation(
        name, cell, frozenset({(CHECK, SIGNATURE)} if failed else ()), frozenset() if failed else frozenset({CHECK})
    )


def _failure(seen: Sequence[Observation]) -> Explained | None:
    return next(iter(explained(seen, together=[TOGETHER], flakes={CHECK: FLAKE})), None)


def _further(world: World, found: Explained, random: Random) -> Row | None:
    """Return the cell that halves the suspects: their values, on the other axes what they have not."""
    book, made = Rulebook.of(world.goal.rules), []
    suspects = [suspect for suspect in found.suspects if not suspect.around]
    for _ in range(CANDIDATES if suspects else 0):
        chosen = random.choices(suspects, [s.share for s in suspects], k=random.randint(1, 6))
        domains = {axis: tuple(random.sample(values, len(values))) for axis, values in world.goal.values.items()}
        for axis, value in (value for suspect in chosen for value in suspect.values):
            if len(domains[axis]) > 1:
                domains[axis] = (value,)
        row = book.solve(domains)
        if row is not None:
            made.append(row)
    number = halving(found, made, [estimate(make_cell(world.spec, row)) for row in made])
    return made[number] if number is not None else None


def measure(ledger: Ledger, runs: int) -> None:
    """Measure how often the culprit is named, how often somebody else is, and how long that takes."""
    world, random = world_of(), Random(51)  # noqa: S311 - a simulation, the same each time
    right = wrong = 0
    used = []
    for _ in range(MATRICES):
        culprit = planted(world, random)
        named, further = trial(world, culprit, random)
        used.append(further)
        right += named is not None and dict(named.values) == culprit
        wrong += named is not None and dict(named.values) != culprit
    accused = sum(trial(world, None, random)[0] is not None for _ in range(EMPTY))
    note = f"{right} of {MATRICES}; {sum(used) / MATRICES:.1f} further cells on average, at most {max(used)}"
    ledger.add("suspects: named exactly", "%", [100 * right / MATRICES], note=f"goal: {NAMED:g} or more; {note}")
    share = 100 * (wrong + accused) / (MATRICES + EMPTY)
    note = f"{wrong} with a culprit, {accused} of {EMPTY} without one"
    ledger.add("suspects: somebody else accused", "%", [share], target=ACCUSED, note=note)
    ledger.add("suspects: 200 cells, 200 checks", "s", [_timed(world, random) for _ in range(runs)], target=SECONDS)


def _timed(world: World, random: Random) -> float:
    checks = [f"suite: test_{n}" for n in range(200)]
    seen = []
    for number in range(200):
        cell = world.cells[number % len(world.cells)]
        failed = {(check, "x") for check in checks if random.random() < FLAKE}
        seen.append(Observation(f"c{number}", cell, frozenset(failed), frozenset(checks) - {c for c, _ in failed}))
    began = time.process_time()
    explained(seen, together=[TOGETHER])
    return time.process_time() - began
