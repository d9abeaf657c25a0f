"""Make a cell of one value per axis: its id, its machines, its phases with what holds in each, its variables."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.errors import BadInput
from harness.model import Cell, Phase, PlannedMachine
from harness.spec.models import AxisValue, Product, ScenarioPhase, Spec
from harness.spec.models.axes import HASH_DIGITS, ID_LENGTH, Axis, fitting_slugs, id_length
from harness.spec.rules import earlier, words
from harness.spec.variables import in_both

CANONICAL = json.JSONEncoder(sort_keys=True)


def make_cell(spec: Spec, values: Mapping[str, str], name: str | None = None) -> Cell:
    """Make the cell that has one value id per axis.

    Args:
        name: what `cell_id` returned for these values, where that was asked already.

    Raises:
        BadInput: its id is too long, or it starts from no value.
    """
    chosen = chosen_of(spec, values)
    machines = _machines(spec, values["topology"], chosen["os"].image or "")
    known = _Known(spec, chosen, spec.product_of(values))
    return Cell(
        id=name if name is not None else cell_id(spec, chosen),
        values=known.ids,
        scenario=values["scenario"],
        phases=tuple(_phases(known, machines)),
        machines=machines,
        vars=known.variables(),
    )


def chosen_of(spec: Spec, values: Mapping[str, str]) -> dict[str, AxisValue]:
    """Return the values that a cell has, by axis, in the axes' order; KeyError when there is no such value."""
    return {axis.name: axis.value(values[axis.name]) for axis in spec.axes}


def cell_id(spec: Spec, chosen: Mapping[str, AxisValue]) -> str:
    """Return the slugs in the axes' order and six digits of a hash of the canonical cell, both without axes' defaults.

    Slugs of axes with a default are left out from the end where the id would be longer than 44 characters.

    Raises:
        BadInput: longer all the same.
    """
    named = {axis.name: chosen[axis.name] for axis in spec.axes if axis.in_ids(chosen[axis.name])}
    canonical = CANONICAL.encode({axis: value.id for axis, value in named.items()})
    digits = hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]
    optional = {axis.name for axis in spec.axes if axis.default is not None}
    slugs = fitting_slugs({axis: value.short for axis, value in named.items()}, optional)
    made = "-".join([*slugs.values(), digits])
    length = id_length(slugs)
    if length > ID_LENGTH:
        raise BadInput(
            f"the cell id {made} is {length} characters long, the limit is {ID_LENGTH}",
            hint="give the values shorter slugs in matrix/axes.yml",
        )
    return made


def cell_named(spec: Spec, name: str) -> Cell | None:
    """Return the cell that has an id, planned or not; None where no values of the matrix make that id.

    The slugs leave few values to choose from, and the hash tells which of them are meant.
    """
    *slugs, digits = name.split("-")
    if len(digits) != HASH_DIGITS or not slugs:
        return None
    for chosen in _spelled(spec.axes, slugs):
        try:
            if cell_id(spec, chosen) == name:
                return make_cell(spec, {axis: value.id for axis, value in chosen.items()}, name)
        except BadInput:  # too long, or it starts from no value: no cell of the matrix
            continue
    return None


def _spelled(axes: Sequence[Axis], slugs: Sequence[str]) -> Iterator[dict[str, AxisValue]]:
    """Yield the values, one on each axis, whose slugs may be these: those of axes with a default may be left out."""
    if not axes:
        yield from () if slugs else ({},)
        return
    axis, *others = axes
    for value in axis.values:
        if slugs and axis.in_ids(value) == slugs[0]:
            yield from ({axis.name: value, **rest} for rest in _spelled(others, slugs[1:]))
        if axis.default is not None:
            yield from ({axis.name: value, **rest} for rest in _spelled(others, slugs))


@dataclass(frozen=True)
class _Known:
    """What holds for some values, one on every axis: their ids, the product, and what they give it."""

    spec: Spec
    chosen: Mapping[str, AxisValue]
    product: Product

    @cached_property
    def ids(self) -> dict[str, str]:
        """Return the values' ids by axis."""
        return {axis: value.id for axis, value in self.chosen.items()}

    @cached_property
    def _of_values(self) -> dict[str, Any]:
        return {name: content for value in self.chosen.values() for name, content in value.vars.items()}

    def variables(self, phase: str = "", added: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the variables that hold in a phase, or in all of them, under our names and the product's."""
        of_product = self.product.phases.get(phase)
        own = of_product.vars if of_product is not None else {}
        return in_both(self.product.variables, {**self.product.vars, **own, **self._of_values, **(added or {})})

    def before(self, phase: ScenarioPhase) -> _Known:
        """Return what holds in a phase that may start from earlier values; BadInput where there are none."""
        if not phase.values:
            return self
        values = {**self.chosen, **_before(self.spec, self.chosen, phase)}
        return _Known(self.spec, values, self.spec.product_of({axis: value.id for axis, value in values.items()}))


def _phases(known: _Known, machines: tuple[PlannedMachine, ...]) -> Iterator[Phase]:
    """Give each phase its machines (those held back come with the next, removed ones go after it) and variables."""
    gone: tuple[str, ...] = ()
    added: dict[str, Any] = {}
    played = _played(known)
    for number, (phase, hops) in enumerate(played):
        there = [m for m in machines if m.name not in gone]
        held = (*_last(there, phase.hold_back), *_spare(there, phase.hold_back_spare))
        named = [m for m in there if m.name not in held]
        lost = (*_last(named, phase.lose), *_first(named, phase.replace))
        staying = [m for m in there if m.name not in (*held, *lost)]
        removed = (*_last(staying, phase.remove), *_spare(staying, phase.remove_spare))
        added.update(phase.vars)
        here = known.before(phase)
        present = [m for m in there if m.name not in held]
        own = here.product.phases.get(phase.phase) if phase.restart is None else None
        yield Phase(
            name=phase.phase,
            then=phase.then,
            cluster=phase.cluster,
            machines=tuple(m.name for m in present),
            removed=removed,
            lost=lost,
            deletes=here.product.makes_machines,
            seconds=own.seconds if own is not None else None,
            idempotent=own is not None and own.idempotent and not lost,
            values=here.ids,
            vars=here.variables(phase.phase, added),
            between=tuple(known.before(hop).variables(hop.phase, added) for hop in hops),
            workload=phase.workload or "",
            restart=phase.restart or "",
            restarts=_restarting(phase, present),
            data_of=_latest([earlier for earlier, _ in played[:number]], phase.data_of),
            delivery=phase.delivery or "",
            delivery_into=phase.delivery_into or "",
        )
        gone = (*gone, *removed, *lost)


def _played(known: _Known) -> list[tuple[ScenarioPhase, tuple[ScenarioPhase, ...]]]:
    """Return the phases that the product plays, each with the hops before it that it goes through by itself."""
    through = {name for name, phase in known.product.phases.items() if phase.hops}
    played: list[tuple[ScenarioPhase, tuple[ScenarioPhase, ...]]] = []
    hops: tuple[ScenarioPhase, ...] = ()
    for phase in known.spec.scenarios[known.ids["scenario"]].phases:
        if phase.hop and phase.phase in through:
            hops = (*hops, phase)
        else:
            played.append((phase, hops))
            hops = ()
    return played


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
    """Return the earlier values, by axis, that a phase starts from; BadInput where there are none."""
    values: dict[str, AxisValue] = {}
    for axis, steps in phase.values.items():
        value = earlier(spec, axis, chosen[axis], words(steps))
        if value is None:
            raise BadInput(
                f"scenario {chosen['scenario'].id} starts from an earlier {axis}, and {chosen[axis].id} has none",
                hint=f"give {chosen[axis].id} a `before` in matrix/axes.yml, or choose another scenario",
            )
        values[axis] = value
    return values


def _first(machines: Sequence[PlannedMachine], counts: Mapping[Any, int]) -> tuple[str, ...]:
    """Return the names of the first machines of each group, as many as are counted."""
    names = _names_by_group(machines)
    return tuple(name for group, count in counts.items() for name in names[group][:count])


def _last(machines: Sequence[PlannedMachine], counts: Mapping[Any, int]) -> tuple[str, ...]:
    """Return the names of the last machines of each group, as many as are counted."""
    names = _names_by_group(machines)
    return tuple(name for group, count in counts.items() for name in names[group][-count:])


def _names_by_group(machines: Sequence[PlannedMachine]) -> Mapping[str, list[str]]:
    """Return the names of machines by group; a machine counts for its first group."""
    names: dict[str, list[str]] = defaultdict(list)
    for machine in machines:
        names[machine.groups[0]].append(machine.name)
    return names


def _spare(machines: Sequence[PlannedMachine], counts: Mapping[Any, int]) -> tuple[str, ...]:
    """Return the names of the last machines of those groups that have more of them than are counted."""
    names = _names_by_group(machines)
    return _last(machines, {group: count for group, count in counts.items() if len(names[group]) > count})


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
