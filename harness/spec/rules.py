"""The constraints with their conditions resolved to sets of value ids, and the rules that other files imply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.spec.models import (
    AxisValue,
    Condition,
    Group,
    OfClass,
    Scenario,
    ScenarioPhase,
    Spec,
    Topology,
    Unlike,
    UnlikeClass,
)


@dataclass(frozen=True)
class Rule:
    """Where a cell's values are all in `when`, they are all in `then`; both map axes to sets of value ids."""

    when: Mapping[str, frozenset[str]]
    then: Mapping[str, frozenset[str]]
    why: str

    def broken_by(self, values: Mapping[str, str]) -> bool:
        """Tell whether a cell (a value id on every axis) contradicts the rule."""
        return all(values[axis] in wanted for axis, wanted in self.when.items()) and any(
            values[axis] not in wanted for axis, wanted in self.then.items()
        )


def words(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one word or several as several."""
    return (given,) if isinstance(given, str) else given


def matching(spec: Spec, axis: str, condition: Condition) -> frozenset[str]:
    """Return the ids of an axis's values for which a condition holds; KeyError when there is no such axis."""
    values = spec.axis(axis).values
    if isinstance(condition, Unlike):
        return frozenset(v.id for v in values if v.id not in words(condition.not_))
    if isinstance(condition, OfClass):
        return frozenset(v.id for v in values if v.class_ in words(condition.class_))
    if isinstance(condition, UnlikeClass):
        return frozenset(v.id for v in values if v.class_ not in words(condition.not_class))
    return frozenset(v.id for v in values if v.id in words(condition))


def rules(spec: Spec) -> tuple[Rule, ...]:
    """Return every rule that a cell obeys: those of constraints.yml, then those that scenarios imply."""
    written = tuple(
        Rule(
            when={axis: matching(spec, axis, condition) for axis, condition in constraint.if_.items()},
            then={axis: matching(spec, axis, condition) for axis, condition in constraint.then.items()},
            why=constraint.why,
        )
        for constraint in spec.constraints
    )
    return (*written, *_implied(spec))


def _implied(spec: Spec) -> Iterator[Rule]:
    for name, scenario in spec.scenarios.items():
        if not any(value.id == name for value in spec.axis("scenario").values):
            continue
        when = {"scenario": frozenset({name})}
        fitting = frozenset(t for t, topology in spec.topologies.items() if _large_enough(topology, scenario))
        possible = frozenset(v.id for v in spec.axis("topology").values)
        if not possible <= fitting:
            yield Rule(when, {"topology": fitting & possible}, f"{name} needs more machines than the others have")
        for phase in scenario.phases:
            for axis, steps in phase.values.items():
                starting = frozenset(v.id for v in spec.axis(axis).values if earlier(spec, axis, v, words(steps)))
                why = f"{name} starts from an earlier {axis} ({', '.join(words(steps))}), which not every value names"
                yield Rule(when, {axis: starting}, why)


def earlier(spec: Spec, axis: str, value: AxisValue, steps: tuple[str, ...]) -> AxisValue | None:
    """Return the value that is those steps before another one; None when a value does not name the next step's."""
    found: AxisValue | None = value
    for step in steps:
        found = spec.value(axis, found.before[step]) if found is not None and step in found.before else None
    return found


def _large_enough(topology: Topology, scenario: Scenario) -> bool:
    """Tell whether every phase leaves a machine of each group that it touches."""
    return all(_leaves_some(topology, phase) for phase in scenario.phases)


def _leaves_some(topology: Topology, phase: ScenarioPhase) -> bool:
    touched: dict[Group, int] = {**phase.hold_back}
    for group, count in phase.remove.items():
        touched[group] = max(count, touched.get(group, 0))
    return all(machines_of(topology, group) > count for group, count in touched.items())


def machines_of(topology: Topology, group: Group) -> int:
    """Return how many machines of a topology can be taken for a group: those that are in it and first of all in it.

    A machine counts for its first group, so that holding back a node never takes a control plane that is also a node.
    """
    return sum(machine.count for machine in topology.machines if machine.groups[0] == group)
