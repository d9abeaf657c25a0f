"""Plan cells: combinations of classes by covertable, members chosen for them, what is redundant taken out again.

covertable gets the classes as factors, the rules as data and the cells that are there already as presets, once for
each of a few salts; the shortest plan counts. Deterministic: the same goal, cells and seed make the same plan.
Does not prove that the plan covers the goal: `verify` does, without a line of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.plan.classes import Field, Pairing, as_classes, conditions, field_of
from harness.plan.goal import Goal
from harness.plan.members import Domains, Value, choose, narrowed
from harness.spec.feasible import Row

MOST_SALTS = 24
PATIENCE = 2000  # combinations times salts: larger goals get fewer tries, so that planning stays a matter of a second
Item = Pairing  # of classes; or one axis and value, to be covered by itself


@dataclass(frozen=True)
class _Wanted:
    """What is left to cover: combinations of classes, and values that count by themselves."""

    field: Field
    values: frozenset[Value]

    def items(self, cell: Row) -> set[tuple[str, Item]]:
        """Return what a cell covers, each with its kind."""
        found: set[tuple[str, Item]] = {("class", c) for c in self.field.combinations(cell)}
        return found | {("value", (v,)) for v in cell.items() if v in self.values}

    def missing(self, cells: Iterable[Row]) -> list[Mapping[str, tuple[str, ...]]]:
        """Return what no cell covers, each as the values that a cell for it may have."""
        covered = {item for cell in cells for item in self.items(cell)}
        groups: list[Mapping[str, tuple[str, ...]]] = [
            self.field.inside(c) for c in sorted(self.field.possible) if ("class", c) not in covered
        ]
        return groups + [{v[0]: (v[1],)} for v in sorted(self.values) if ("value", (v,)) not in covered]


def cover(goal: Goal, *, there: Sequence[Mapping[str, str]] = (), seed: int = 0) -> tuple[Row, ...]:
    """Return the cells that, with those that are there, cover every possible combination of the goal.

    Args:
        there: cells that stay, whatever they cover; one that lacks an axis counts for what it has.
        seed: another one makes another plan.
    """
    fixed = [dict(cell) for cell in there]
    by_value = goal.cover.strength == 1 and goal.cover.each_value and not goal.cover.together
    field = field_of(goal, by_value=by_value)
    if not all(field.domains.values()):
        return ()
    values = frozenset((a, v) for a, vs in field.domains.items() for v in vs) if goal.cover.each_value else frozenset()
    wanted = _Wanted(field, values)
    if not wanted.missing(fixed) and _one_there(field, fixed):
        return ()
    shortest = _least(field)
    best: list[Row] | None = None
    for number in range(max(1, min(MOST_SALTS, PATIENCE // (len(field.possible) + 1)))):
        rows = _once(wanted, fixed, str(seed * MOST_SALTS + number or ""))  # the first is covertable's own
        if best is None or _price(goal, rows) < _price(goal, best):
            best = rows
        if len(best) + len(fixed) <= shortest:
            break
    return tuple(best or ())


def completed(goal: Goal, cells: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    """Yield cells that lack some axes with a value on each, as varied as can be; whole ones as they are.

    One that cannot be completed is left out.
    """
    field = field_of(goal, by_value=True)
    whole = [dict(cell) for cell in cells if len(cell) == len(goal.values)]
    for cell in cells:
        domains = narrowed(field.domains, {axis: (value,) for axis, value in cell.items()})
        if len(cell) == len(goal.values):
            yield dict(cell)
        elif field.book.solve(domains) is not None:
            (made,) = choose(field.book, [domains], (), whole)
            whole.append(made)
            yield made


def _once(wanted: _Wanted, fixed: list[Row], salt: str) -> list[Row]:
    """Plan with one salt: rows of classes, members, what covertable's rows left out, less what is redundant."""
    field = wanted.field
    rows: list[Domains] = []
    for classes in _rows(field, fixed, salt):
        domains = narrowed(field.domains, field.inside(classes.items()))
        if field.book.solve(domains) is not None:
            rows.append(domains)
    covered = {v for cell in fixed for v in cell.items()}
    needed = [v for v in sorted(wanted.values) if v not in covered]
    new = list(choose(field.book, rows, needed, fixed))
    new += choose(field.book, list(_rescue(wanted, [*fixed, *new])), (), [*fixed, *new])
    return _without_redundant(wanted, fixed, new)


def _rows(field: Field, fixed: Sequence[Row], salt: str) -> Iterator[Row]:
    """Yield covertable's rows of classes on the axes that vary, those of the fixed cells left out."""
    varied = [axis for axis, classes in field.members.items() if len(classes) > 1]
    if not varied:
        yield from [] if _one_there(field, fixed) else [{}]
        return
    # a dot in a name would be a path to covertable
    keys = {axis: f"axis{number}" for number, axis in enumerate(varied)}
    presets = [{keys[a]: c for a, c in as_classes(field, cell).items()} for cell in fixed]
    (_, strength), *groups = field.strengths
    from covertable.main import Controller  # which a plan that is locked already does not need

    made = Controller(
        {keys[axis]: list(field.members[axis]) for axis in varied},
        strength=strength,
        sub_models=[{"fields": [keys[a] for a in axes], "strength": together} for axes, together in groups],
        constraints=conditions(field, keys),
        presets=[preset for preset in presets if len(preset) == len(varied)],
        salt=salt,
    ).make()
    old = Counter(tuple(sorted(preset.items())) for preset in presets)
    for row in made:
        shape = tuple(sorted(row.items()))
        if old[shape] > 0:
            old[shape] -= 1
        else:
            yield {axis: row[keys[axis]] for axis in varied}


def _one_there(field: Field, fixed: Sequence[Row]) -> bool:
    """Tell whether a cell is there already: any, or where only one cell can be planned, that one."""
    if field.possible or not all(len(values) == 1 for values in field.domains.values()):
        return bool(fixed)
    return any(all(cell.get(axis) in values for axis, values in field.domains.items()) for cell in fixed)


def _rescue(wanted: _Wanted, cells: Sequence[Row]) -> Iterator[Domains]:
    """Yield rows for what no cell covers, each taking in as much of it as fits together."""
    field = wanted.field
    left = wanted.missing(cells)
    while left:
        row: Domains = field.domains
        later = []
        for item in left:
            narrower = narrowed(row, item)
            if field.book.solve(narrower) is not None:
                row = narrower
            else:
                later.append(item)
        if len(later) == len(left):
            return
        left = later
        yield row


def _without_redundant(wanted: _Wanted, fixed: Sequence[Row], new: list[Row]) -> list[Row]:
    """Return the new cells without those whose every item another cell covers; the last ones go first."""
    times = Counter(item for cell in (*fixed, *new) for item in wanted.items(cell))
    kept = []
    for cell in reversed(new):
        items = wanted.items(cell)
        if items and all(times[item] > 1 for item in items) and len(fixed) + len(new) > 1:
            times.subtract(items)
        else:
            kept.append(cell)
    return kept[::-1]


def _least(field: Field) -> int:
    """Return how many cells there are at least: combinations of the same axes exclude each other."""
    sizes = Counter(tuple(axis for axis, _ in c) for c in field.possible)
    return max([1, *sizes.values()])


def _price(goal: Goal, rows: Sequence[Row]) -> tuple[int, int]:
    machines = goal.machines or {}
    return len(rows), sum(machines.get(row.get("topology", ""), 0) for row in rows)
