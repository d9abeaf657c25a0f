"""Rows, coverage and time of plans, beside allpairspy and covertable by themselves; what stays when a value is added.

On the tiers of pairs of this matrix and on a matrix of 13 x 7 x 3 x 8 x 3 with constraints. The others plan the same
classes under the same rules: what they are not asked for is that every value of a class is in a cell, and to keep any.
Seconds are the processor's: planning waits for nothing, and other work on the host does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from allpairspy import AllPairs
from covertable.main import Controller

from harness.paths import project_dir
from harness.plan.build import plan_tier
from harness.plan.cover import Field, conditions, cover, field_of, narrowed
from harness.plan.goal import Goal, goal_of
from harness.plan.lock import load_lock
from harness.plan.tiers import FIRST, MONTH, WEEK, tier_cells, triples
from harness.plan.verify import verify
from harness.schedule.durations import estimate
from harness.spec import Spec, load_spec
from harness.spec.models import Cover
from harness.spec.rules import Rule
from tests.bench.figures import Ledger

SECONDS = 2.0  # for all tiers on all kinds of infra; and for the large matrix
MORE_ROWS = 1.05  # than the shortest complete plan of the others
AXES = {"os": 13, "network": 7, "runtime": 3, "topology": 8, "upgrade": 3}

Row = Mapping[str, str]  # a class on each axis


@dataclass(frozen=True)
class Planned:
    """What one planner made of a goal: rows, possible pairs that they have, seconds of the processor."""

    rows: int
    covered: int
    seconds: float


def measure(ledger: Ledger, runs: int) -> None:
    """Measure plans of this matrix and of the large one."""
    spec = load_spec(project_dir() / "matrix")
    pairs = [(tier, infra) for infra in spec.infras for tier in spec.tiers]
    ledger.add(
        "plan every tier again", "s", [_timed(lambda: [plan_tier(spec, *pair) for pair in pairs]) for _ in range(runs)],
        target=SECONDS, note="all tiers on all infra profiles, with the proofs",
    )  # fmt: skip
    for infra in spec.infras:
        for tier in (name for name, tier in spec.tiers.items() if tier.cover == Cover(strength=2)):
            _compare(ledger, f"{tier} on {infra}", goal_of(spec, tier, infra), runs)
    _compare(ledger, "x".join(map(str, AXES.values())), large(), runs)
    _growth(ledger, "this matrix", list(_goals(spec)))
    _growth(ledger, "x".join(map(str, AXES.values())), [large()])


def measure_nights(ledger: Ledger, runs: int) -> None:
    """Measure what nights of rotating tiers cover, and cost beside the cells of the lock; every run is the same."""
    spec = load_spec(project_dir() / "matrix")
    lock = load_lock(project_dir() / "matrix")
    for tier, infra in ((t, i) for t, known in spec.tiers.items() if known.rotates for i in spec.infras):
        locked = tier_cells(spec, tier, infra, lock)
        covered = triples(spec, tier, infra, len(locked))
        figures = lock.tier(infra, tier)
        known = figures is not None and figures.figures.month == str(covered["month"])
        for nights, name in ((WEEK, "week"), (MONTH, "month")):
            share = 100 * covered[name] / covered["possible"]
            note = f"{covered[name]} of {covered['possible']}; as the lock says: {'yes' if known else 'NO'}"
            ledger.add(f"{tier} on {infra}: triples of {nights} nights", "%", [share], note=note)
        cost = sum(map(estimate, locked))
        some = [FIRST + timedelta(days=n) for n in range(WEEK)]
        made = [tier_cells(spec, tier, infra, lock, night=night) for night in some]
        shares = [100 * sum(map(estimate, cells)) / cost for cells in made]
        note = f"{min(map(len, made))} to {max(map(len, made))} cells, {len(locked)} in the lock"
        ledger.add(f"{tier} on {infra}: expected time of a night, by the lock's", "%", shares, note=note)


def large() -> Goal:
    """Return the goal of all pairs of 13 x 7 x 3 x 8 x 3 values under the kind of rules that such a matrix has."""
    values = {axis: tuple(f"{axis}-{n}" for n in range(size)) for axis, size in AXES.items()}
    return Goal(
        values=values,
        classes={axis: {v: v for v in ids} for axis, ids in values.items()},
        rules=(
            _rule({"os": [11, 12]}, {"network": [0, 1, 2]}),
            _rule({"runtime": [2]}, {"os": range(8)}),
            _rule({"topology": [0]}, {"upgrade": [0, 1]}),
            _rule({"network": [6]}, {"runtime": [0, 1]}),
            _rule({"upgrade": [2], "runtime": [2]}, {"topology": [5, 6, 7]}),
            _rule({"os": [0]}, {"runtime": [1, 2]}),
        ),
        cover=Cover(strength=2),
    )


def _rule(when: Mapping[str, Iterable[int]], then: Mapping[str, Iterable[int]]) -> Rule:
    sides = [{a: frozenset(f"{a}-{n}" for n in numbers) for a, numbers in side.items()} for side in (when, then)]
    return Rule(sides[0], sides[1], "so that the matrix has rules")


def _compare(ledger: Ledger, name: str, goal: Goal, runs: int) -> None:
    field = field_of(goal, by_value=False)
    planners: dict[str, Callable[[], Sequence[Row]]] = {
        "vmatrix": lambda: _as_rows(field, cover(goal)),
        "allpairspy": lambda: list(_allpairspy(field)),
        "covertable": lambda: list(_covertable(field)),
    }
    made = {planner: [_plan(field, plan) for _ in range(runs)] for planner, plan in planners.items()}
    possible = len(field.possible)
    complete = [p[0].rows for planner, p in made.items() if planner != "vmatrix" and p[0].covered == possible]
    most = MORE_ROWS * min(complete) if complete else None
    for planner, plans in made.items():
        ours = planner == "vmatrix"
        note = f"{plans[0].covered} of {possible} possible pairs"
        if ours:
            proof = verify(goal, cover(goal))
            note += "; goal: all, and every value: " + ("proved" if proof.complete else "NOT proved")
        ledger.add(f"{name}: rows, {planner}", "", [p.rows for p in plans], target=most if ours else None, note=note)
        seconds = SECONDS if ours else None
        ledger.add(f"{name}: time, {planner}", "s", [p.seconds for p in plans], target=seconds)


def _plan(field: Field, plan: Callable[[], Sequence[Row]]) -> Planned:
    began = time.process_time()
    rows = plan()
    seconds = time.process_time() - began
    covered = {pair for pair in field.possible if any(all(row[a] == c for a, c in pair) for row in rows)}
    return Planned(len(rows), len(covered), seconds)


def _as_rows(field: Field, cells: Iterable[Row]) -> list[Row]:
    return [{axis: field.class_of[axis][value] for axis, value in cell.items()} for cell in cells]


def _allpairspy(field: Field) -> Iterator[Row]:
    axes = [axis for axis, classes in field.members.items() if len(classes) > 1]
    single = {axis: next(iter(classes)) for axis, classes in field.members.items() if len(classes) == 1}

    def possible(row: Sequence[str]) -> bool:
        inside = field.inside(zip(axes, row, strict=False))
        return field.book.solve(narrowed(field.domains, inside)) is not None

    for row in AllPairs([list(field.members[axis]) for axis in axes], filter_func=possible):
        yield {**single, **dict(zip(axes, row, strict=True))}


def _covertable(field: Field) -> Iterator[Row]:
    keys = {axis: f"axis{n}" for n, (axis, classes) in enumerate(field.members.items()) if len(classes) > 1}
    single = {axis: next(iter(classes)) for axis, classes in field.members.items() if len(classes) == 1}
    factors = {keys[axis]: list(field.members[axis]) for axis in keys}
    for row in Controller(factors, strength=2, constraints=conditions(field, keys)).make():
        yield {**single, **{axis: row[key] for axis, key in keys.items()}}


def _goals(spec: Spec) -> Iterator[Goal]:
    for infra in spec.infras:
        for name, tier in spec.tiers.items():
            if tier.cover is not None:
                yield goal_of(spec, name, infra)


def _growth(ledger: Ledger, name: str, goals: Sequence[Goal]) -> None:
    """Add a value in a class of its own to each axis in turn, and count what becomes of the cells."""
    cells = kept = new = open_plans = 0
    for goal in goals:
        before = cover(goal)
        for axis in goal.values:
            grown = replace(
                goal,
                values={**goal.values, axis: (*goal.values[axis], "added")},
                classes={**goal.classes, axis: {**goal.classes[axis], "added": "added"}},
            )
            allowed = [cell for cell in before if grown.allows(cell)]
            added = cover(grown, there=allowed)
            cells, kept, new = cells + len(before), kept + len(allowed), new + len(added)
            open_plans += not verify(grown, [*allowed, *added]).complete
    ledger.add(
        f"{name}: cells kept when a value is added", "%", [100 * kept / cells], note=f"goal: 100; {kept} of {cells}"
    )
    note = f"over all axes and tiers; plans that are not complete then: {open_plans} (goal: 0)"
    ledger.add(f"{name}: cells added for it", "", [new], note=note)


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
