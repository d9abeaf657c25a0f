"""Find cells: values on every axis that obey the rules, and for chosen classes the members that serve best.

Does not decide which classes go together (cover does, through covertable).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from harness.spec.feasible import Row, Rulebook

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
