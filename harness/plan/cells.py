"""Make a cell of one value per axis: its id, its machines, its phases, its variables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from harness.errors import BadInput
from harness.model import Cell, Phase, PlannedMachine
from harness.spec.models import AxisValue, Spec

ID_LENGTH = 40  # namespaces are "vmatrix-" + id + attempt and must stay under 63 characters
HASH_DIGITS = 6


def make_cell(spec: Spec, values: Mapping[str, str]) -> Cell:
    """Make the cell that has one value id per axis.

    Raises:
        BadInput: the id would be longer than 40 characters.
    """
    chosen: dict[str, AxisValue] = {axis.name: spec.value(axis.name, values[axis.name]) for axis in spec.axes}
    scenario = spec.scenarios[values["scenario"]]
    variables: dict[str, Any] = dict(spec.product.vars)
    for value in chosen.values():
        variables.update(value.vars)
    return Cell(
        id=cell_id(chosen),
        values={axis: value.id for axis, value in chosen.items()},
        scenario=values["scenario"],
        phases=tuple(Phase(p.phase, p.parameters) for p in scenario.phases),
        machines=_machines(spec, values["topology"], chosen["os"].image or ""),
        vars=variables,
    )


def cell_id(chosen: Mapping[str, AxisValue]) -> str:
    """Return the slugs in the axes' order and six digits of a hash of the canonical cell.

    Raises:
        BadInput: longer than 40 characters.
    """
    canonical = json.dumps({axis: value.id for axis, value in sorted(chosen.items())}, sort_keys=True)
    digits = hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]
    made = "-".join([*(value.short for value in chosen.values()), digits])
    if len(made) > ID_LENGTH:
        raise BadInput(
            f"the cell id {made} has {len(made)} characters, at most {ID_LENGTH} fit",
            hint="give the values shorter slugs in matrix/axes.yml",
        )
    return made


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
