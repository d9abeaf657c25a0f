"""Whether any cell obeys rules: an example by backtracking, or the few rules that together forbid it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.spec.rules import Rule

Row = dict[str, str]


@dataclass(frozen=True)
class Rulebook:
    """The rules, found by the axes that they are about."""

    rules: tuple[Rule, ...]
    by_axis: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    @staticmethod
    def of(rules: Sequence[Rule]) -> Rulebook:
        """Return the rules, sorted by axis."""
        axes = {axis for rule in rules for axis in (*rule.when, *rule.then)}
        return Rulebook(tuple(rules), {a: tuple(r for r in rules if a in r.when or a in r.then) for a in sorted(axes)})

    def solve(self, domains: Mapping[str, Sequence[str]]) -> Row | None:
        """Return a cell with a value of each domain that breaks no rule; None when there is none."""
        bound = sorted((a for a in domains if a in self.by_axis), key=lambda a: len(domains[a]))
        chosen: Row = {}
        if not all(domains.values()) or not self._extend(chosen, bound, domains):
            return None
        return {a: chosen[a] if a in chosen else values[0] for a, values in domains.items()}

    def feasible(self, domains: Mapping[str, frozenset[str]]) -> bool:
        """Tell whether some value of each domain breaks no rule."""
        return self.solve({axis: sorted(values) for axis, values in domains.items()}) is not None

    def _extend(self, chosen: Row, order: list[str], domains: Mapping[str, Sequence[str]]) -> bool:
        if len(chosen) == len(order):
            return True
        axis = order[len(chosen)]
        for value in domains[axis]:
            chosen[axis] = value
            if not any(_broken(rule, chosen) for rule in self.by_axis[axis]) and self._extend(chosen, order, domains):
                return True
            del chosen[axis]
        return False


def _broken(rule: Rule, chosen: Row) -> bool:
    """Tell whether a rule is broken whatever the axes without a value get."""
    for axis, wanted in rule.when.items():  # a loop, because this is asked thousands of times and mostly ends here
        if chosen.get(axis) not in wanted:
            return False
    return any(axis in chosen and chosen[axis] not in wanted for axis, wanted in rule.then.items())


def conflict(domains: Mapping[str, frozenset[str]], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return rules that no cell obeys together, none of which could be left out; only for infeasible domains.

    Nothing when an axis has no value at all: then no rule is to blame.
    """
    kept = list(rules)
    for rule in rules:
        fewer = [other for other in kept if other is not rule]
        if not Rulebook.of(fewer).feasible(domains):
            kept = fewer
    return tuple(kept)
