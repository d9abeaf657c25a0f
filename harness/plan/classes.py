"""The classes of values that cells can have, and what the rules leave possible between classes, as data for covertable.

A rule speaks of values. Between classes it forbids what no members of them can obey. What only several rules together
forbid is found by trying (`Field.possible`), and said to covertable as one more rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any

from harness.plan.goal import Goal
from harness.plan.members import Domains, Value, narrowed
from harness.spec.feasible import Row, Rulebook
from harness.spec.rules import Rule

Pairing = tuple[Value, ...]  # axis and class, in the axes' order
Condition = dict[str, Any]  # as covertable has it


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
        wanted = list(self.wanted())
        for combination in wanted:
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
