"""Prove what a plan covers: every combination that some cell could have, and why no cell can have the others.

Trusts nothing that planned: enumerates the combinations itself, checks each cell against the rules, and looks for a
cell with each uncovered combination by a search of its own (propagation, then backtracking). A combination without one
is impossible; the rules and left-out values that forbid it are reduced until none of them can be spared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from harness.plan.goal import Goal
from harness.spec.rules import Rule

WAYS = {1: "classes", 2: "pairs of classes", 3: "triples of classes"}
Sets = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Combination:
    """Classes on some axes, or one value on one axis, that a cell may have together."""

    values: tuple[tuple[str, str], ...]
    by_value: bool = False

    def __str__(self) -> str:
        return " + ".join(f"{axis} {name}" for axis, name in self.values)


@dataclass(frozen=True)
class Impossible:
    """A combination that no cell can have, and a smallest set of reasons."""

    combination: Combination
    why: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """How many combinations of one kind some cell could have, and how many of them the plan's cells have."""

    what: str
    feasible: int
    covered: int


@dataclass(frozen=True)
class Broken:
    """A cell of the plan that is not a cell of the matrix, by its place in the plan, and why."""

    number: int
    why: tuple[str, ...]


@dataclass(frozen=True)
class Proof:
    """What a plan covers. It covers its goal when nothing is missing and no cell is broken."""

    counts: tuple[Count, ...]
    missing: tuple[Combination, ...]
    impossible: tuple[Impossible, ...]
    broken: tuple[Broken, ...]

    @property
    def complete(self) -> bool:
        """Tell whether every combination that some cell could have is covered, by sound cells."""
        return not self.missing and not self.broken


def verify(goal: Goal, cells: Sequence[Mapping[str, str]]) -> Proof:
    """Return the proof of what cells cover. A cell that breaks a rule covers nothing."""
    broken = tuple(Broken(n, why) for n, cell in enumerate(cells) if (why := _unsound(goal, cell)))
    unsound = {b.number for b in broken}
    sound = [cell for n, cell in enumerate(cells) if n not in unsound]
    counts: list[Count] = []
    missing: list[Combination] = []
    impossible: list[Impossible] = []
    for what, group in wanted_by_kind(goal):
        covered = covered_by(goal, sound, group)
        absent: list[Combination] = []
        for combination in group:
            if combination not in covered:
                reasons = _impossible(goal, combination)
                if reasons is None:
                    absent.append(combination)
                else:
                    impossible.append(Impossible(combination, reasons))
        counts.append(Count(what, len(covered) + len(absent), len(covered)))
        missing += absent
    return Proof(tuple(counts), tuple(missing), tuple(impossible), broken)


def wanted_by_kind(goal: Goal) -> Iterator[tuple[str, dict[Combination, None]]]:
    """Yield, by kind, every combination that a goal asks for, possible or not, in order."""
    axes = tuple(goal.values)
    strength = min(goal.cover.strength, len(axes))
    if goal.cover.each_value:
        single = (Combination(((a, v),), by_value=True) for a, values in goal.values.items() for v in values)
        yield "values", dict.fromkeys(single)
    yield WAYS.get(strength, f"{strength} classes together"), dict.fromkeys(_ways(goal, axes, strength))
    for together in goal.cover.together:
        group = tuple(axis for axis in axes if axis in together.axes)
        size = min(together.strength, len(group))
        what = f"{WAYS.get(size, f'{size} classes together')} of {', '.join(group)}"
        yield what, dict.fromkeys(_ways(goal, group, size))


def _ways(goal: Goal, axes: Iterable[str], size: int) -> Iterator[Combination]:
    for chosen in combinations(axes, size):
        classes = [dict.fromkeys(goal.classes[axis][v] for v in goal.values[axis]) for axis in chosen]
        for names in product(*classes):
            yield Combination(tuple(zip(chosen, names, strict=True)))


def had(goal: Goal, cell: Mapping[str, str], wanted: Iterable[Combination]) -> Iterator[Combination]:
    """Yield those combinations that a cell has."""
    values = {axis: cell[axis] for axis in goal.values}
    classes = {axis: goal.classes[axis].get(value) for axis, value in values.items()}
    for combination in wanted:
        has = values if combination.by_value else classes
        if all(has[axis] == name for axis, name in combination.values):
            yield combination


def covered_by(goal: Goal, cells: Iterable[Mapping[str, str]], wanted: Iterable[Combination]) -> set[Combination]:
    """Return those combinations that some cell has."""
    by_axes: dict[tuple[bool, tuple[str, ...]], dict[tuple[str, ...], Combination]] = {}
    for combination in wanted:
        axes, names = zip(*combination.values, strict=True) if combination.values else ((), ())
        by_axes.setdefault((combination.by_value, axes), {})[names] = combination
    covered: set[Combination] = set()
    for cell in cells:
        classes = {axis: goal.classes[axis].get(cell[axis], "") for axis in goal.values}
        for (by_value, axes), known in by_axes.items():
            has = known.get(tuple(cell[axis] if by_value else classes[axis] for axis in axes))
            if has is not None:
                covered.add(has)
    return covered


def _unsound(goal: Goal, cell: Mapping[str, str]) -> tuple[str, ...]:
    """Return why a cell is none of the matrix or of the infra; nothing for a sound one."""
    lacking = [f"no value for {axis}" for axis in goal.values if axis not in cell]
    strange = [f"unknown axis {axis}" for axis in cell if axis not in goal.values]
    unknown = [f"unknown {a} {v}" for a, v in cell.items() if a in goal.values and v not in goal.classes[a]]
    if lacking or strange or unknown:
        return (*lacking, *strange, *unknown)
    gone = {(out.axis, out.value): out.why for out in goal.left_out if out.by != "tier"}
    needs = [f"{axis} {value} {gone[axis, value]}" for axis, value in cell.items() if (axis, value) in gone]
    exactly = {axis: frozenset({value}) for axis, value in cell.items()}
    return (*needs, *(rule.why for rule in goal.rules if find(exactly, [rule]) is None))


def _impossible(goal: Goal, combination: Combination) -> tuple[str, ...] | None:
    """Return why no cell can have a combination, None when one can."""
    everything = {axis: frozenset(of) for axis, of in goal.classes.items()}
    for axis, name in combination.values:
        of = goal.classes[axis]
        everything[axis] = frozenset({name} if combination.by_value else {v for v in of if of[v] == name})
    outs: dict[tuple[str, str], set[str]] = {}
    for out in goal.left_out:
        outs.setdefault((out.axis, out.why), set()).add(out.value)
    reasons: list[tuple[str, frozenset[str]] | Rule] = [*((axis, frozenset(v)) for (axis, _), v in outs.items())]
    texts = [f"{axis} {', '.join(sorted(values))}: {why}" for (axis, why), values in outs.items()]
    reasons += goal.rules
    texts += [rule.why for rule in goal.rules]
    needed = list(range(len(reasons)))
    if _found(everything, [reasons[i] for i in needed]):
        return None
    for i in range(len(reasons)):  # left-out values go first: a rule says more
        fewer = [n for n in needed if n != i]
        if not _found(everything, [reasons[n] for n in fewer]):
            needed = fewer
    return tuple(dict.fromkeys(texts[i] for i in needed))


def _found(domains: Sets, reasons: Sequence[tuple[str, frozenset[str]] | Rule]) -> bool:
    left = dict(domains)
    for reason in reasons:
        if not isinstance(reason, Rule):
            axis, values = reason
            left[axis] = left[axis] - values
    return find(left, [reason for reason in reasons if isinstance(reason, Rule)]) is not None


def find(domains: Mapping[str, frozenset[str]], rules: Sequence[Rule]) -> dict[str, str] | None:
    """Return a cell with a value of each domain that obeys the rules; None when there is none."""
    narrowed = _propagated(domains, rules)
    if narrowed is None:
        return None
    open_axes = {a for rule in rules if not _settled(rule, narrowed) for a in (*rule.when, *rule.then)}
    undecided = sorted((len(narrowed[a]), a) for a in open_axes if len(narrowed[a]) > 1)
    if not undecided:
        return {axis: min(values) for axis, values in narrowed.items()}
    axis = undecided[0][1]
    for value in sorted(narrowed[axis]):
        cell = find({**narrowed, axis: frozenset({value})}, rules)
        if cell is not None:
            return cell
    return None


def _propagated(domains: Mapping[str, frozenset[str]], rules: Sequence[Rule]) -> Sets | None:
    """Return the domains without values that a rule by itself rules out; None when one becomes empty."""
    left = dict(domains)
    while True:
        before = dict(left)
        for rule in rules:
            _apply(rule, left)
        if not all(left.values()):
            return None
        if left == before:
            return left


def _apply(rule: Rule, left: Sets) -> None:
    if any(left[axis].isdisjoint(inside) for axis, inside in rule.when.items()):
        return
    ways_out = [axis for axis, inside in rule.when.items() if not left[axis] <= inside]
    if not ways_out:
        for axis, inside in rule.then.items():
            left[axis] &= inside
    elif len(ways_out) == 1 and any(left[axis].isdisjoint(inside) for axis, inside in rule.then.items()):
        left[ways_out[0]] -= rule.when[ways_out[0]]


def _settled(rule: Rule, left: Mapping[str, frozenset[str]]) -> bool:
    """Tell whether a rule is obeyed whatever values of the domains are chosen."""
    return any(left[axis].isdisjoint(inside) for axis, inside in rule.when.items()) or all(
        left[axis] <= inside for axis, inside in rule.then.items()
    )
