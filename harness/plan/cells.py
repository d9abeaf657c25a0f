"""Make a cell of one value per axis: its id, its machines, its phases with what holds in each, its variables."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.errors import BadInput
from harness.model import Cell, Phase, PlannedMachine
from harness.spec.models import AxisValue, ScenarioPhase, Spec
from harness.spec.models.axes import HASH_DIGITS, ID_LENGTH, counted, fitting
from harness.spec.own_words import in_both
from harness.spec.rules import earlier, words


def make_cell(spec: Spec, values: Mapping[str, str]) -> Cell:
    """Make the cell that has one value id per axis; BadInput when its id is too long or it starts from no value."""
    chosen: dict[str, AxisValue] = {axis.name: spec.value(axis.name, values[axis.name]) for axis in spec.axes}
    machines = _machines(spec, values["topology"], chosen["os"].image or "")
    return Cell(
        id=cell_id(spec, chosen),
        values={axis: value.id for axis, value in chosen.items()},
        scenario=values["scenario"],
        phases=tuple(_phases(spec, chosen, machines)),
        machines=machines,
        vars=in_both(spec.product_of(values).variables, _variables(spec, chosen)),
    )


def cell_id(spec: Spec, chosen: Mapping[str, AxisValue]) -> str:
    """Return the slugs in the axes' order and six digits of a hash of the canonical cell, both without axes' defaults.

    Slugs of axes with a default are left out from the end where the id would be longer than 44 characters.

    Raises:
        BadInput: longer all the same.
    """
    told = {axis.name: chosen[axis.name] for axis in spec.axes if axis.in_ids(chosen[axis.name])}
    canonical = json.dumps({axis: value.id for axis, value in sorted(told.items())}, sort_keys=True)
    digits = hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]
    optional = {axis.name for axis in spec.axes if axis.default is not None}
    slugs = fitting({axis: value.short for axis, value in told.items()}, optional)
    made = "-".join([*slugs.values(), digits])
    length = counted(slugs)
    if length > ID_LENGTH:
        raise BadInput(
            f"the cell id {made} is {length} characters long, the limit is {ID_LENGTH}",
            hint="give the values shorter slugs in matrix/axes.yml",
        )
    return made


def _variables(spec: Spec, chosen: Mapping[str, AxisValue], phase: str = "") -> dict[str, Any]:
    product = spec.product_of({axis: value.id for axis, value in chosen.items()})
    known = product.phases.get(phase)
    given = (product.vars, known.vars if known is not None else {}, *(value.vars for value in chosen.values()))
    found: dict[str, Any] = {}
    for variables in given:
        found.update(variables)
    return found


def _phases(spec: Spec, chosen: Mapping[str, AxisValue], machines: tuple[PlannedMachine, ...]) -> Iterator[Phase]:
    """Give each phase its machines (those held back come with the next, removed ones go after it) and variables."""
    gone: tuple[str, ...] = ()
    added: dict[str, Any] = {}
    played = _played(spec, chosen)
    for number, (phase, hops) in enumerate(played):
        there = [m for m in machines if m.name not in gone]
        held = (*_last(there, phase.hold_back), *_spare(there, phase.hold_back_spare))
        lost = _last([m for m in there if m.name not in held], phase.lose)
        staying = [m for m in there if m.name not in (*held, *lost)]
        removed = (*_last(staying, phase.remove), *_spare(staying, phase.remove_spare))
        added.update(phase.vars)
        ids = {axis: value.id for axis, value in {**chosen, **_before(spec, chosen, phase)}.items()}
        present = [m for m in there if m.name not in held]
        own = spec.product_of(ids).phases.get(phase.phase) if phase.restart is None else None
        yield Phase(
            name=phase.phase,
            then=phase.then,
            cluster=phase.cluster,
            machines=tuple(m.name for m in present),
            removed=removed,
            lost=lost,
            deletes=spec.product_of(ids).makes_machines,
            idempotent=own is not None and own.idempotent and not lost,
            values=ids,
            vars=_given(spec, chosen, phase, added),
            between=tuple(_given(spec, chosen, hop, added) for hop in hops),
            workload=phase.workload or "",
            restart=phase.restart or "",
            restarts=_restarting(phase, present),
            data_of=_latest([earlier for earlier, _ in played[:number]], phase.data_of),
        )
        gone = (*gone, *removed, *lost)


def _played(spec: Spec, chosen: Mapping[str, AxisValue]) -> list[tuple[ScenarioPhase, tuple[ScenarioPhase, ...]]]:
    """Return the phases that the product plays, each with the hops before it that it goes through by itself."""
    product = spec.product_of({axis: value.id for axis, value in chosen.items()})
    through = {name for name, phase in product.phases.items() if phase.hops}
    found: list[tuple[ScenarioPhase, tuple[ScenarioPhase, ...]]] = []
    hops: tuple[ScenarioPhase, ...] = ()
    for phase in spec.scenarios[chosen["scenario"].id].phases:
        if phase.hop and phase.phase in through:
            hops = (*hops, phase)
        else:
            found.append((phase, hops))
            hops = ()
    return found


def _given(
    spec: Spec, chosen: Mapping[str, AxisValue], phase: ScenarioPhase, added: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the variables that hold in a phase, under our names and the product's."""
    values = {**chosen, **_before(spec, chosen, phase)}
    product = spec.product_of({axis: value.id for axis, value in values.items()})
    return in_both(product.variables, {**_variables(spec, values, phase.phase), **added})


def _restarting(phase: ScenarioPhase, machines: Sequence[PlannedMachine]) -> tuple[str, ...]:
    """Return the names of the machines that restart: all, but one by one not the node that looks on meanwhile."""
    names = [m.name for m in machines] if phase.restart else []
    if phase.restart == "one-by-one":
        nodes = [m for m in machines if {"node", "control_plane"} & set(m.groups)]
        names.remove(next((m for m in nodes if "control_plane" not in m.groups), nodes[0]).name)
    return tuple(names)


def _latest(phases: Sequence[ScenarioPhase], name: str | None) -> int | None:
    """Return the index of the last phase of a name."""
    return max((number for number, phase in enumerate(phases) if phase.phase == name), default=None)


def _before(spec: Spec, chosen: Mapping[str, AxisValue], phase: ScenarioPhase) -> dict[str, AxisValue]:
    found: dict[str, AxisValue] = {}
    for axis, steps in phase.values.items():
        value = earlier(spec, axis, chosen[axis], words(steps))
        if value is None:
            raise BadInput(
                f"scenario {chosen['scenario'].id} starts from an earlier {axis}, and {chosen[axis].id} has none",
                hint=f"give {chosen[axis].id} a `before` in matrix/axes.yml, or choose another scenario",
            )
        found[axis] = value
    return found


def _last(machines: list[PlannedMachine], counts: Mapping[Any, int]) -> tuple[str, ...]:
    """Return the names of the last machines of each group; a machine counts for its first group."""
    return tuple(
        m.name for group, count in counts.items() for m in [m for m in machines if m.groups[0] == group][-count:]
    )


def _spare(machines: list[PlannedMachine], counts: Mapping[Any, int]) -> tuple[str, ...]:
    """Return the same as `_last` for those groups that have more machines than are counted, and none of the others."""
    if not counts:
        return ()
    there = Counter(m.groups[0] for m in machines)
    return _last(machines, {group: count for group, count in counts.items() if there[group] > count})


def _machines(spec: Spec, topology: str, image: str) -> tuple[PlannedMachine, ...]:
    return tuple(
        PlannedMachine(
            name=f"{kind.name}-{number}",
            groups=tuple(kind.groups),
            cpus=kind.cpus,
            memory_mib=kind.memory_mib,
            disk_gib=kind.disk_gib,
            image=image,
        )
        for kind in spec.topologies[topology].machines
        for number in range(kind.count)
    )
