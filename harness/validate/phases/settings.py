"""Whether the settings that a scenario changes are in force after a phase, and were others before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.model import Cell
from harness.validate.findings import Mismatch, differs, unjudged
from harness.validate.phases.observation import Observation
from harness.validate.phases.setting_places import LOOKS, OF_RUNTIME, RequestedSetting

RUNTIME = "cluster_container_runtime"
# Variables of scenarios that other checks look at, and where those are.
SEEN_ELSEWHERE: Mapping[str, str] = {
    "cluster_metrics_server_version": "suite cluster",
    "cluster_local_path_provisioner_version": "suite cluster",
}


def requested_in(cell: Cell, index: int) -> tuple[RequestedSetting, ...]:
    """Return the settings that the scenario requests in a phase or in an earlier one, as far as checks look at them.

    A scenario has settings of each container runtime; those of another one than the cell's are in force nowhere.
    """
    own = _of_scenario(cell, index)
    runtime = cell.vars.get(RUNTIME)
    seen = [name for name in own if name in LOOKS and runtime in (None, OF_RUNTIME.get(name, runtime))]
    return tuple(RequestedSetting(variable, *leaf) for variable in seen for leaf in leaves(own[variable]))


def not_looked_at(cell: Cell, index: int) -> list[Mismatch]:
    """Return the variables of the scenario that no check looks at: one in the product's own words, mostly."""
    own = _of_scenario(cell, index)
    axes = {name for name in own if name in cell.vars and name not in LOOKS}  # another version, by a phase's `values`
    unknown = sorted(own.keys() - axes - LOOKS.keys() - SEEN_ELSEWHERE.keys())
    why = f"no check knows where a running cluster shows it; scenario {cell.scenario} sets it"
    return [unjudged(name, why) for name in unknown]


def _of_scenario(cell: Cell, index: int) -> dict[str, Any]:
    return {name: value for name, value in cell.phases[index].vars.items() if cell.vars.get(name) != value}


def first_requested_in(cell: Cell, index: int) -> tuple[RequestedSetting, ...]:
    """Return the settings that a phase is the first to request."""
    before = requested_in(cell, index - 1) if index else ()
    return tuple(one for one in requested_in(cell, index) if one not in before)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values inside mappings with their paths, joined by dots; any other value with an empty path."""
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from leaves(inner, f"{path}.{key}" if path else str(key))


def not_in_force(requested: tuple[RequestedSetting, ...], seen: Observation) -> list[Mismatch]:
    """Return where a setting is not as requested; a setting that is in force nowhere is a mismatch too."""
    found: list[Mismatch] = []
    for one in requested:
        places = list(LOOKS[one.variable](seen, one))
        if not places:
            found.append(Mismatch(one.variable, f"a place where {one.name or 'it'} is in force", "none"))
        for place in places:
            found += differs(place.where, "value", place.wanted, place.seen)
    return found


def not_changed(requested: tuple[RequestedSetting, ...], before: Observation) -> list[Mismatch]:
    """Return where a setting already had its new value before the phase: then the phase has proved nothing."""
    found: list[Mismatch] = []
    for one in requested:
        places = list(LOOKS[one.variable](before, one))
        if not places:
            found.append(Mismatch(one.variable, f"a place where {one.name or 'it'} was in force before", "none"))
        found += [
            Mismatch(f"{place.where}, before the phase", f"not yet {place.wanted!r}", repr(place.seen))
            for place in places
            if place.steady and place.seen == place.wanted
        ]
    return found
