"""Constraints with their conditions resolved to sets of value ids, and what scenarios and values ask for.

Scenarios imply rules. Values need features of an infra cluster (matrix/infras.yml).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.model import Cell
from harness.spec.base import Condition, Feature, Group, OfClass, Unlike, UnlikeClass
from harness.spec.models import AxisValue, Scenario, ScenarioPhase, Space, Topology

TO_RESTART_ONE_BY_ONE = 2  # nodes: one restarts, another looks on


@dataclass(frozen=True)
class Rule:
    """Where a cell's values are all in `when`, they are all in `then`; both map axes to sets of value ids.

    origin: the rule of constraints.yml that it follows from, for the values of a phase.
    """

    when: Mapping[str, frozenset[str]]
    then: Mapping[str, frozenset[str]]
    why: str
    origin: Rule | None = field(default=None, compare=False, repr=False)

    def broken_by(self, values: Mapping[str, str]) -> bool:
        """Tell whether a cell (a value id on every axis) contradicts the rule."""
        for axis, ids in self.when.items():  # a loop, because this is asked thousands of times and mostly ends here
            if values[axis] not in ids:
                return False
        return any(values[axis] not in ids for axis, ids in self.then.items())


def words(word: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one word or several as several."""
    return (word,) if isinstance(word, str) else word


def matching(spec: Space, axis: str, condition: Condition) -> frozenset[str]:
    """Return the ids of an axis's values for which a condition holds; KeyError when there is no such axis."""
    named = values_named(condition)
    by_class = isinstance(condition, OfClass | UnlikeClass)
    is_in = not isinstance(condition, Unlike | UnlikeClass)
    return frozenset(v.id for v in spec.axis(axis).values if ((v.class_ if by_class else v.id) in named) == is_in)


def values_named(condition: Condition) -> tuple[str, ...]:
    """Return the words that a condition is about: value ids, or classes."""
    if isinstance(condition, Unlike):
        return words(condition.not_)
    if isinstance(condition, OfClass):
        return words(condition.class_)
    if isinstance(condition, UnlikeClass):
        return words(condition.not_class)
    return words(condition)


def lacking(spec: Space, infra: str, axis: str, value_id: str) -> tuple[Feature, ...]:
    """Return what a value needs and an infra profile does not offer; nothing when it can run there."""
    offers = spec.infras[infra].offers
    return tuple(feature for feature in spec.value(axis, value_id).needs if feature not in offers)


def possible(spec: Space, infra: str) -> dict[str, frozenset[str]]:
    """Return, by axis, the ids of the values that an infra profile can run."""
    return {
        axis.name: frozenset(v.id for v in axis.values if not lacking(spec, infra, axis.name, v.id))
        for axis in spec.axes
    }


def rules(spec: Space) -> tuple[Rule, ...]:
    """Return every rule that a cell obeys: those of constraints.yml, then those that scenarios imply."""
    written = tuple(
        Rule(
            when={axis: matching(spec, axis, condition) for axis, condition in constraint.if_.items()},
            then={axis: matching(spec, axis, condition) for axis, condition in constraint.then.items()},
            why=constraint.why,
        )
        for constraint in spec.constraints
    )
    return (*written, *_implied(spec, written))


def _implied(spec: Space, written: tuple[Rule, ...]) -> Iterator[Rule]:
    for name, scenario in spec.scenarios.items():
        if not any(value.id == name for value in spec.axis("scenario").values):
            continue
        when = {"scenario": frozenset({name})}
        fitting = frozenset(t for t, topology in spec.topologies.items() if _large_enough(topology, scenario))
        there = frozenset(v.id for v in spec.axis("topology").values)
        if not there <= fitting:
            yield Rule(when, {"topology": fitting & there}, f"{name} needs a topology with more machines")
        for phase in scenario.phases:
            for axis, steps in phase.values.items():
                starting = frozenset(v.id for v in spec.axis(axis).values if earlier(spec, axis, v, words(steps)))
                why = f"{name} starts from an earlier {axis} ({', '.join(words(steps))}), which only some values have"
                yield Rule(when, {axis: starting}, why)
            if phase.values:
                yield from _on_the_way(spec, name, phase, written)


def _on_the_way(spec: Space, scenario: str, phase: ScenarioPhase, written: tuple[Rule, ...]) -> Iterator[Rule]:
    """Hold the values of a phase to the written rules: as rules about the values that the cell ends with."""

    def ending(axis: str, ids: frozenset[str]) -> frozenset[str]:
        """Return the values that have one of the wanted ones during the phase."""
        if axis not in phase.values:
            return ids
        steps = words(phase.values[axis])
        value_before = {v.id: earlier(spec, axis, v, steps) for v in spec.axis(axis).values}
        return frozenset(i for i, before in value_before.items() if before is not None and before.id in ids)

    for rule in written:
        if phase.values.keys().isdisjoint({*rule.when, *rule.then}):
            continue
        if scenario not in rule.when.get("scenario", {scenario}):
            continue
        when = {axis: ending(axis, ids) for axis, ids in rule.when.items()}
        then = {axis: ending(axis, ids) for axis, ids in rule.then.items()}
        why = f"{rule.why} (in phase {phase.phase} of {scenario})"
        yield Rule({**when, "scenario": frozenset({scenario})}, then, why, rule)


def earlier(spec: Space, axis: str, value: AxisValue, steps: tuple[str, ...]) -> AxisValue | None:
    """Return the value that is those steps before another one; None when a value does not name the next step's."""
    value_before: AxisValue | None = value
    for step in steps:
        value_before = (
            spec.value(axis, value_before.before[step])
            if value_before is not None and step in value_before.before
            else None
        )
    return value_before


def _large_enough(topology: Topology, scenario: Scenario) -> bool:
    """Tell whether every phase leaves a machine of each group that it touches, those removed before it being gone."""
    gone: Counter[Group] = Counter()
    if any(phase.restart == "one-by-one" for phase in scenario.phases) and _nodes(topology) < TO_RESTART_ONE_BY_ONE:
        return False
    for phase in scenario.phases:
        touched = Counter[Group]()
        for counts in (phase.hold_back, phase.remove, phase.lose, phase.replace):
            touched.update(counts)
        if not touched:
            continue
        if any(machines_of(topology, group) - gone[group] <= count for group, count in touched.items()):
            return False
        gone.update(phase.remove)
        gone.update(phase.lose)
        gone.update(phase.replace)
    return True


def _nodes(topology: Topology) -> int:
    return sum(m.count for m in topology.machines if {"node", "control_plane"} & set(m.groups))


def machines_of(topology: Topology, group: Group) -> int:
    """Return how many machines of a topology can be taken for a group: those that are in it and first of all in it.

    A machine counts for its first group, so that holding back a node never takes a control plane that is also a node.
    """
    return sum(machine.count for machine in topology.machines if machine.groups[0] == group)


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
    for axis, ids in rule.when.items():  # a loop, because this is asked thousands of times and mostly ends here
        if chosen.get(axis) not in ids:
            return False
    return any(axis in chosen and chosen[axis] not in ids for axis, ids in rule.then.items())


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


IPV6: Feature = "ipv6"


def needed(spec: Space, cells: Iterable[Cell]) -> frozenset[Feature]:
    """Return what at least one of the cells needs, in any of its phases."""
    return frozenset(feature for cell in cells for feature in needs_of(spec, cell))


def needs_of(spec: Space, cell: Cell) -> frozenset[Feature]:
    """Return what one cell needs: its values, and the earlier ones that it starts from."""
    moments: list[Mapping[str, str]] = [cell.values, *(phase.values for phase in cell.phases)]
    chosen = {pair for values in moments for pair in values.items()}
    values = (value for axis in spec.axes for value in axis.values if (axis.name, value.id) in chosen)
    return frozenset(feature for value in values for feature in value.needs)
