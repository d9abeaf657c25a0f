"""Find cells: values on every axis that obey the rules, and for chosen classes the members that serve best.

Covers search by backtracking over values. Does not decide which classes go together (cover does, through covertable).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from harness.spec.rules import Rule

Domains = Mapping[str, tuple[str, ...]]
Row = dict[str, str]
Value = tuple[str, str]  # axis, value id


@dataclass(frozen=True)
class Rulebook:
    """The rules, found by the axes that they speak of."""

    rules: tuple[Rule, ...]
    by_axis: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    @staticmethod
    def of(rules: Sequence[Rule]) -> Rulebook:
        """Return the rules, sorted by axis."""
        axes = {axis for rule in rules for axis in (*rule.when, *rule.then)}
        return Rulebook(tuple(rules), {a: tuple(r for r in rules if a in r.when or a in r.then) for a in sorted(axes)})

    def solve(self, domains: Domains) -> Row | None:
        """Return a cell with a value of each domain that breaks no rule; None when there is none."""
        bound = sorted((a for a in domains if a in self.by_axis), key=lambda a: len(domains[a]))
        free = [a for a in domains if a not in self.by_axis]
        chosen: Row = {}
        if not all(domains.values()) or not self._extend(chosen, bound, domains):
            return None
        return {a: domains[a][0] if a in free else chosen[a] for a in domains}

    def _extend(self, chosen: Row, order: list[str], domains: Domains) -> bool:
        if len(chosen) == len(order):
            return True
        axis = order[len(chosen)]
        for value in domains[axis]:
            chosen[axis] = value
            if not any(_broken(rule, chosen) for rule in self.by_axis[axis]) and self._extend(chosen, order, domains):
                return True
            del chosen[axis]
        return False


def _broken(rule: Rule, chosen: Mapping[str, str]) -> bool:
    """Tell whether a rule is broken whatever the axes without a value get."""
    return all(chosen.get(axis) in wanted for axis, wanted in rule.when.items()) and any(
        axis in chosen and chosen[axis] not in wanted for axis, wanted in rule.then.items()
    )


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
    seen = Counter(pair for row in there for pair in _pairs(row))
    for domains in open_rows:
        row = _varied(book, domains, seen)
        seen.update(_pairs(row))
        yield row


def _varied(book: Rulebook, domains: Domains, seen: Counter[frozenset[Value]]) -> Row:
    """Return a cell from the domains, on each axis in turn the value that makes the most pairs not yet seen."""
    for axis in domains:
        if len(domains[axis]) > 1:
            settled = [(a, values[0]) for a, values in domains.items() if len(values) == 1]
            ranked = sorted(domains[axis], key=lambda v: _familiar((axis, v), settled, seen))
            domains = next(d for v in ranked if book.solve(d := narrowed(domains, {axis: (v,)})) is not None)
    return {axis: values[0] for axis, values in domains.items()}


def _familiar(value: Value, settled: Sequence[Value], seen: Counter[frozenset[Value]]) -> tuple[int, int]:
    counts = [seen[frozenset((value, other))] for other in settled]
    return sum(1 for count in counts if count), sum(counts)


def _pairs(row: Mapping[str, str]) -> Iterator[frozenset[Value]]:
    return (frozenset(pair) for pair in combinations(row.items(), 2))
