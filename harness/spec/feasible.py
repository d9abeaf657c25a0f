"""Whether any cell obeys rules: an example by backtracking, or the few rules that together forbid it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.spec.rules import Rule

Domains = Mapping[str, frozenset[str]]


def example(domains: Domains, rules: Sequence[Rule]) -> dict[str, str] | None:
    """Return a value on each axis that breaks no rule; None when there is none. Sets are tried in sorted order."""
    if not all(domains.values()):
        return None
    bound = {axis for rule in rules for axis in (*rule.when, *rule.then)}
    order = sorted((axis for axis in domains if axis in bound), key=lambda axis: len(domains[axis]))
    chosen: dict[str, str] = {}
    if not _extend(chosen, order, domains, rules):
        return None
    return {axis: chosen[axis] if axis in chosen else min(values) for axis, values in domains.items()}


def conflict(domains: Domains, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return rules that no cell obeys together, none of which could be left out; only for domains without an example.

    Nothing when an axis has no value at all: then no rule is to blame.
    """
    kept = list(rules)
    for rule in rules:
        fewer = [other for other in kept if other is not rule]
        if example(domains, fewer) is None:
            kept = fewer
    return tuple(kept)


def _extend(chosen: dict[str, str], order: Sequence[str], domains: Domains, rules: Sequence[Rule]) -> bool:
    if len(chosen) == len(order):
        return True
    axis = order[len(chosen)]
    for value in sorted(domains[axis]):
        chosen[axis] = value
        if not any(_broken(rule, chosen) for rule in rules) and _extend(chosen, order, domains, rules):
            return True
        del chosen[axis]
    return False


def _broken(rule: Rule, chosen: Mapping[str, str]) -> bool:
    """Tell whether a rule is broken whatever the axes without a value get."""
    return all(chosen.get(axis) in wanted for axis, wanted in rule.when.items()) and any(
        axis in chosen and chosen[axis] not in wanted for axis, wanted in rule.then.items()
    )
