"""Plan cells: combinations of classes by covertable, members chosen for them, what is redundant taken out again.

covertable gets the classes as factors, the rules as data and the cells that are there already as presets, once for
each of a few salts; the shortest plan counts. Deterministic: the same goal, cells and seed make the same plan.
Does not prove that the plan covers the goal: `verify` does, without a line of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, product
from operator import or_
from typing import TYPE_CHECKING, Any

from harness.plan.goal import Goal
from harness.spec.rules import Row, Rule, Rulebook

if TYPE_CHECKING:
    from covertable.main import Controller

Domains = Mapping[str, tuple[str, ...]]
Value = tuple[str, str]  # axis, value id


def narrowed(domains: Domains, to: Mapping[str, tuple[str, ...]]) -> Domains:
    """Return the domains with those of some axes narrowed; their order stays."""
    return {a: tuple(v for v in values if v in to[a]) if a in to else values for a, values in domains.items()}


def choose(book: Rulebook, rows: Sequence[Domains], needed: Sequence[Value], there: Sequence[Row]) -> Iterator[Row]:
    """Yield a cell for each row of domains: every needed value in one of them if it fits, then as many pairs as can be.

    Args:
        rows: what each cell may have; each can be solved.
        needed: values that no other cell has.  there: the cells that there are already.
    """
    open_rows = list(rows)
    options = {v: [i for i, row in enumerate(rows) if v[1] in row[v[0]]] for v in needed}
    for axis, value in sorted(needed, key=lambda v: len(options[v])):
        for i in options[axis, value]:
            narrower = narrowed(open_rows[i], {axis: (value,)})
            if narrower[axis] and book.solve(narrower) is not None:
                open_rows[i] = narrower
                break
    counts = Counter(pair for row in there for pair in _pairs(row))
    for domains in open_rows:
        row = _varied(book, domains, counts)
        counts.update(_pairs(row))
        yield row


def _varied(book: Rulebook, domains: Domains, counts: Counter[frozenset[Value]]) -> Row:
    """Return a cell from the domains, on each axis in turn the value that makes the most pairs not yet seen."""
    for axis in domains:
        if len(domains[axis]) > 1:
            settled = [(a, values[0]) for a, values in domains.items() if len(values) == 1]
            ranked = sorted(domains[axis], key=lambda v: _familiar((axis, v), settled, counts))
            domains = next(d for v in ranked if book.solve(d := narrowed(domains, {axis: (v,)})) is not None)
    return {axis: values[0] for axis, values in domains.items()}


def _familiar(value: Value, settled: Sequence[Value], seen: Counter[frozenset[Value]]) -> tuple[int, int]:
    counts = [seen[frozenset((value, other))] for other in settled]
    return sum(1 for count in counts if count), sum(counts)


def _pairs(row: Mapping[str, str]) -> Iterator[frozenset[Value]]:
    return (frozenset(pair) for pair in combinations(row.items(), 2))


Pairing = tuple[Value, ...]  # axis and class, in the axes' order
Condition = dict[str, Any]  # as covertable has it
Judgement = Callable[[Mapping[str, str]], bool | None]  # of a row; None: it hangs on what the row has not yet


@dataclass(frozen=True)
class Field:
    """What is paired: on each axis classes with their members; members that no cell can have are left out.

    each: whether every member counts by itself.  strengths: how many axes are taken together, by group of axes.
    """

    book: Rulebook
    members: Mapping[str, Mapping[str, tuple[str, ...]]]
    strengths: tuple[tuple[tuple[str, ...], int], ...]

    @cached_property
    def domains(self) -> Domains:
        """Return every value that a cell can have, by axis."""
        return {axis: tuple(v for m in classes.values() for v in m) for axis, classes in self.members.items()}

    @cached_property
    def class_of(self) -> Mapping[str, Mapping[str, str]]:
        """Return the class of each value, by axis."""
        return {a: {v: c for c, m in classes.items() for v in m} for a, classes in self.members.items()}

    @cached_property
    def possible(self) -> frozenset[Pairing]:
        """Return the wanted combinations of classes that some cell has."""
        known: set[Pairing] = set()
        combinations_wanted = list(self.wanted())
        for combination in combinations_wanted:
            if combination not in known:
                cell = self.book.solve(narrowed(self.domains, self.inside(combination)))
                if cell is not None:
                    known.update(self.combinations(cell))
        return frozenset(known)

    def wanted(self) -> Iterator[Pairing]:
        """Yield every combination of classes that is to be covered where it is possible."""
        for axes, strength in self.strengths:
            for chosen in combinations(axes, strength):
                for classes in product(*(self.members[axis] for axis in chosen)):
                    yield tuple(zip(chosen, classes, strict=True))

    def combinations(self, cell: Mapping[str, str]) -> Iterator[Pairing]:
        """Yield the combinations of classes that a cell has."""
        has = [(axis, of[cell[axis]]) for axis, of in self.class_of.items() if cell.get(axis) in of]
        for axes, strength in self.strengths:
            yield from combinations([(axis, c) for axis, c in has if axis in axes], strength)

    def inside(self, combination: Iterable[Value]) -> dict[str, tuple[str, ...]]:
        """Return the members of the classes of a combination, by axis."""
        return {axis: self.members[axis][c] for axis, c in combination}


def field_of(goal: Goal, *, by_value: bool) -> Field:
    """Return what is paired for a goal: its classes, or each value by itself."""
    book = Rulebook.of(goal.rules)
    members: dict[str, dict[str, tuple[str, ...]]] = {}
    for axis, values in goal.values.items():
        members[axis] = {}
        for value in values:
            if book.solve({**goal.values, axis: (value,)}) is not None:
                name = value if by_value else goal.classes[axis][value]
                members[axis][name] = (*members[axis].get(name, ()), value)
    varied = tuple(axis for axis, classes in members.items() if len(classes) > 1)
    strength = min(goal.cover.strength, len(varied))
    groups = [(varied, strength)] if strength else []
    for together in goal.cover.together:
        axes = tuple(axis for axis in varied if axis in together.axes)
        if min(together.strength, len(axes)) > strength:
            groups.append((axes, min(together.strength, len(axes))))
    return Field(book, members, tuple(groups))


def conditions(field: Field, keys: Mapping[str, str]) -> list[Condition]:
    """Return the rules between classes as covertable's conditions, by its `keys` for the axes with several classes."""
    made = [_condition(rule, field, keys) for rule in field.book.rules]
    known = [c for c in made if c is not None]
    never = ([{"operator": "ne", "left": keys[axis], "value": name} for axis, name in c] for c in _interplay(field))
    return [*known, *({"operator": "or", "conditions": parts} for parts in never)]


def _condition(rule: Rule, field: Field, keys: Mapping[str, str]) -> Condition | None:
    """Return what a rule asks of classes; None when it asks nothing of the axes that vary."""
    escapes = {
        a: [c for c, m in field.members[a].items() if not inside.issuperset(m)] for a, inside in rule.when.items()
    }
    obeys = {a: [c for c, m in field.members[a].items() if not inside.isdisjoint(m)] for a, inside in rule.then.items()}
    if any(escapes[a] and a not in keys for a in escapes):
        return None
    obeyed = [_among(keys[a], classes) for a, classes in obeys.items() if a in keys]
    if all(len(classes) == len(field.members[a]) for a, classes in obeys.items()):
        return None
    ways = [_among(keys[a], classes) for a, classes in escapes.items() if a in keys]
    if all(obeys[a] for a in obeys if a not in keys):
        ways.append({"operator": "and", "conditions": obeyed})
    return {"operator": "or", "conditions": ways}


def _among(key: str, classes: list[str]) -> Condition:
    return {"operator": "in", "left": key, "values": classes}


def judgement(condition: Condition) -> Judgement:
    """Return a condition of `conditions` as a function, in the three-valued logic by which covertable evaluates it."""
    operator = condition["operator"]
    if operator in ("in", "ne"):
        key, inside = condition["left"], operator == "in"
        values = frozenset(condition["values"] if inside else [condition["value"]])
        return lambda row: (row[key] in values) is inside if key in row else None
    parts, decisive = [judgement(part) for part in condition["conditions"]], operator == "or"

    def judge(row: Mapping[str, str]) -> bool | None:
        known = True
        for part in parts:
            judged = part(row)
            if judged is decisive:
                return decisive
            known = known and judged is not None
        return not decisive if known else None

    return judge


def _interplay(field: Field) -> Iterator[Pairing]:
    """Yield the wanted combinations that no single rule forbids and no cell has."""
    for combination in field.wanted():
        if combination not in field.possible:
            inside: dict[str, tuple[str, ...]] = field.inside(combination)
            if all(_obeyed(rule, {**field.domains, **inside}) for rule in field.book.rules):
                yield combination


def _obeyed(rule: Rule, domains: Domains) -> bool:
    """Tell whether some values of the domains obey one rule, whatever the others ask."""
    return any(not inside.issuperset(domains[a]) for a, inside in rule.when.items()) or all(
        not inside.isdisjoint(domains[a]) for a, inside in rule.then.items()
    )


def as_classes(field: Field, cell: Row) -> Row:
    """Return a cell's classes on the axes that vary."""
    return {a: of[cell[a]] for a, of in field.class_of.items() if len(field.members[a]) > 1 and cell.get(a) in of}


MOST_SALTS = 24
NIGHT_SALTS = 8  # tries at a plan that is as short as another one; about half of them are
STARTS = 40  # of the search for combinations that exclude each other
PATIENCE = 2000  # combinations times salts: larger goals get fewer tries, so that planning stays a matter of a second
Item = Pairing  # of classes; or one axis and value, to be covered by itself


@dataclass(frozen=True)
class _Wanted:
    """What is left to cover: combinations of classes, and values that count by themselves."""

    field: Field
    values: frozenset[Value]

    def items(self, cell: Row) -> set[tuple[str, Item]]:
        """Return what a cell covers, each with its kind."""
        items: set[tuple[str, Item]] = {("class", c) for c in self.field.combinations(cell)}
        return items | {("value", (v,)) for v in cell.items() if v in self.values}

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
    (rows,) = covers(goal, there=there, seeds=[seed])
    return rows


def covers(
    goal: Goal, *, there: Sequence[Mapping[str, str]] = (), seeds: Iterable[int], enough: int | None = None
) -> Iterator[tuple[Row, ...]]:
    """Yield what `cover` returns, for each of several seeds.

    Args:
        enough: with how many cells, those that are there included, a plan is short enough; None: the shortest of the
            few that there is patience for.
    """
    fixed = [dict(cell) for cell in there]
    wanted = _wanted(goal)
    field = wanted.field
    idle = not all(field.domains.values()) or (not wanted.missing(fixed) and _one_there(field, fixed))
    array = None if idle else _array(field, fixed)
    shortest = _least(field) if enough is None else enough
    tries = max(1, min(MOST_SALTS, PATIENCE // (len(field.possible) + 1))) if enough is None else NIGHT_SALTS
    for seed in seeds:
        best: list[Row] | None = None
        for number in range(0 if idle else tries):
            salt = str(seed * MOST_SALTS + number or "")  # the first is covertable's own
            rows = _once(wanted, fixed, _rows(field, fixed, array, salt))
            if best is None or _price(goal, rows) < _price(goal, best):
                best = rows
            if len(best) + len(fixed) <= shortest:
                break
        yield tuple(best or ())


def _wanted(goal: Goal) -> _Wanted:
    by_value = goal.cover.strength == 1 and goal.cover.each_value and not goal.cover.together
    field = field_of(goal, by_value=by_value)
    values = frozenset((a, v) for a, vs in field.domains.items() for v in vs) if goal.cover.each_value else frozenset()
    return _Wanted(field, values)


def lower_bound(goal: Goal) -> int:
    """Return a number of cells that no plan of the goal can go below, pinned cells included.

    It is the size of a set of combinations of which no cell can have two: a clique of the graph of combinations that
    exclude each other. The largest is hard to find (Karp 1972), so this is the best of greedy ones, from many starts.
    """
    wanted = _wanted(goal)
    field = wanted.field
    if not all(field.domains.values()):
        return 0
    values = sorted(wanted.values)
    needs = [frozenset(item) for item in sorted(field.possible)]
    needs += [frozenset({(axis, field.class_of[axis][value])}) for axis, value in values]
    excluded = _excluding(field, needs, [axis for axis, _ in values])
    starts = sorted(range(len(needs)), key=lambda n: -excluded[n].bit_count())[:STARTS]
    return max([_least(field), *(_clique(excluded, start) for start in starts)])


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


def _once(wanted: _Wanted, fixed: list[Row], array: Iterable[Row]) -> list[Row]:
    """Plan with the rows of one array of classes: members, what the array left out, less what is redundant."""
    field = wanted.field
    rows: list[Domains] = []
    for classes in array:
        domains = narrowed(field.domains, field.inside(classes.items()))
        if field.book.solve(domains) is not None:
            rows.append(domains)
    covered = {v for cell in fixed for v in cell.items()}
    needed = [v for v in sorted(wanted.values) if v not in covered]
    new = list(choose(field.book, rows, needed, fixed))
    new += choose(field.book, list(_rescue(wanted, [*fixed, *new])), (), [*fixed, *new])
    return _without_redundant(wanted, fixed, new)


def _array(field: Field, fixed: Sequence[Row]) -> Controller | None:
    """Return covertable's start of an array of classes, which is the same for every salt; None when no axis varies.

    Which combinations some row can have is known, and conditions are functions: covertable looks for those from every
    combination anew, and interprets these, which would take most of the time of a plan.
    """
    keys = _keys(field)
    if not keys:
        return None
    from covertable.main import Controller  # which a plan that is locked already does not need

    class Start(Controller):  # type: ignore[misc] # has no types
        """covertable's, with what is known."""

        started = False

        def _resolve_constraints(self, constraints: list[Condition]) -> None:
            super()._resolve_constraints(constraints)
            for known in self._constraints:
                known["condition"] = {"operator": "fn", "requires": (), "evaluate": judgement(known["condition"])}

        def _set_incomplete(self) -> None:
            super()._set_incomplete()
            serials = {
                (a, c): s for a, key in keys.items() for c, s in zip(field.members[a], self.serials[key], strict=True)
            }
            possible = {tuple(sorted(serials[value] for value in combination)) for combination in field.possible}
            self.incomplete: dict[tuple[int, ...], tuple[int, ...]] = {
                pair: pair for pair in self.incomplete if pair in possible
            }

        def _forward_check(self, snapshot: Mapping[str, int]) -> bool:
            return not self.started or super()._forward_check(snapshot)

    presets = [{keys[a]: c for a, c in as_classes(field, cell).items()} for cell in fixed]
    (_, strength), *groups = field.strengths
    start = Start(
        {key: list(field.members[axis]) for axis, key in keys.items()},
        strength=strength,
        sub_models=[{"fields": [keys[a] for a in axes], "strength": together} for axes, together in groups],
        constraints=conditions(field, keys),
        presets=[preset for preset in presets if len(preset) == len(keys)],
    )
    start.started = True
    return start


def _keys(field: Field) -> dict[str, str]:
    """Return covertable's names of the axes that vary; it would take a dot in a name for a path."""
    varied = (axis for axis, classes in field.members.items() if len(classes) > 1)
    return {axis: f"axis{number}" for number, axis in enumerate(varied)}


def _rows(field: Field, fixed: Sequence[Row], array: Controller | None, salt: str) -> Iterator[Row]:
    """Yield covertable's rows of classes on the axes that vary, those of the fixed cells left out."""
    if array is None:
        yield from [] if _one_there(field, fixed) else [{}]
        return
    keys = _keys(field)
    salted = deepcopy(array, {id(module): module for module in (array.sorter, array.criterion)})
    salted.salt = salt
    salted.incomplete = {c: c for c in salted.sorter.sort(list(array.incomplete), salt=salt, indices=array.indices)}
    old = Counter(tuple(as_classes(field, cell).items()) for cell in fixed)
    for row in salted.make():
        classes = {axis: row[key] for axis, key in keys.items()}
        shape = tuple(classes.items())
        if old[shape] > 0:
            old[shape] -= 1
        else:
            yield classes


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


def _excluding(field: Field, needs: Sequence[frozenset[Value]], values: Sequence[str]) -> list[int]:
    """Return for each combination, as bits, those that no cell with it has, as far as pairs of classes tell."""
    axes = tuple(axis for axis, classes in field.members.items() if len(classes) > 1)
    pairs = replace(field, strengths=((axes, 2),)).possible if len(axes) > 1 else frozenset()
    fits = {frozenset(pair) for pair in pairs}
    has: dict[Value, int] = {}
    for number, classes in enumerate(needs):
        for value in classes:
            has[value] = has.get(value, 0) | 1 << number
    never = {
        value: _together(bits for other, bits in has.items() if other != value and not _fit(value, other, axes, fits))
        for value in has
    }
    excluded = [_together(never[value] for value in classes) for classes in needs]
    first = len(needs) - len(values)  # values come last; two of one class exclude each other, too
    for number, axis in enumerate(values, first):
        alike = (first + n for n, other in enumerate(values) if other == axis and first + n != number)
        excluded[number] |= _together(1 << n for n in alike)
    return excluded


def _fit(first: Value, other: Value, axes: Sequence[str], fits: Collection[frozenset[Value]]) -> bool:
    if first[0] == other[0]:
        return False
    return first[0] not in axes or other[0] not in axes or frozenset((first, other)) in fits


def _together(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _clique(excluded: Sequence[int], start: int) -> int:
    """Return how many combinations exclude each other: each next one is that which leaves the most to choose from."""
    left, size = excluded[start], 1
    while left:
        inside = [n for n in range(len(excluded)) if left >> n & 1]
        left &= excluded[max(inside, key=lambda n: (excluded[n] & left).bit_count())]
        size += 1
    return size


def _price(goal: Goal, rows: Sequence[Row]) -> tuple[int, int]:
    machines = goal.machines or {}
    return len(rows), sum(machines.get(row.get("topology", ""), 0) for row in rows)
