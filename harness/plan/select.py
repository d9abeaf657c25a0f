"""Which cells a person means: of a tier or of all, narrowed by filters, by a run's failures, by what changed.

`vmatrix list`, `vmatrix run` and pytest's --cell all choose through `selected`, so that they mean the same cells.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from harness.errors import BadInput, NothingSelected
from harness.model import Cell
from harness.plan.cells import cell_named
from harness.plan.changed import Changes, effects
from harness.plan.goal import goal_of, tier_of
from harness.plan.lock import Lock, not_runnable
from harness.plan.tiers import all_tier_cells, tier_cells
from harness.spec.models import Spec
from harness.spec.shape import unknown

CLASS = "class:"
NAMED = 5  # cells that a hint names; more are not read
SHOWS = "`vmatrix list` shows the tiers and their cells"


@dataclass(frozen=True)
class Failed:
    """The cells of a run that did not pass, by id."""

    run: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class PlanSelection:
    """What cells are asked for; all of every tier without anything.

    filters: cell ids and globs of ids; AXIS=VALUE and AXIS=class:CLASS, where value and class may be globs. A cell is
        meant when it fits one of the ids (if any are given) and, for every axis that is named, one of its values.
    tier: only cells of this tier.  failed: only these.
    changed: only cells that these files can affect, and one control cell that they cannot.
    night: of the tier, where its planned cells differ from night to night; None for the cells of the lock.
    """

    filters: tuple[str, ...] = ()
    tier: str | None = None
    failed: Failed | None = None
    changed: Changes | None = None
    night: date | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """Return the ids that are given in full, of cells that need not be planned."""
        words = (*self.filters, *(self.failed.cells if self.failed is not None else ()))
        return tuple(word for word in words if not set(word) & set("=*?["))


@dataclass(frozen=True)
class Selected:
    """A cell that is meant, the tiers that it is in, and why it is meant."""

    cell: Cell
    tiers: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Candidate:
    """A cell that may be meant, and the reasons so far."""

    cell: Cell
    tiers: tuple[str, ...]
    why: tuple[str, ...]

    def because(self, *reasons: str) -> Candidate:
        """Return the same cell with further reasons."""
        return replace(self, why=(*self.why, *reasons))


def selected(spec: Spec, infra: str, selection: PlanSelection, lock: Lock | None = None) -> tuple[Selected, ...]:
    """Return the cells that are meant on an infra profile, in the order of the tiers and of their plans.

    Args:
        lock: what `load_lock` returned; the project's own without it.

    Raises:
        BadInput: unknown infra, tier, axis or value; a failed cell that is planned no more; a stale lock.
        NothingSelected: a filter fits no cell, or no cell is left; the tier's pinned cells cannot run there.
    """
    if selection.tier is None:
        return choose(spec, all_tier_cells(spec, infra, lock), selection, _unplanned(spec, infra, selection))
    named = bool(selection.filters) and len(selection.named) == len(selection.filters)
    night = None if named else selection.night  # an id says by itself which cell it is
    # of this tier alone: the others' plans may be out of date
    cells = tier_cells(spec, selection.tier, infra, lock, night=night)
    if not cells:
        raise NothingSelected(
            f"tier {selection.tier} has no cell on {infra}",
            hint="choose another tier or infra profile",
            detail="\n".join(_without_cells(spec, selection.tier, infra)),
        )
    return choose(spec, {selection.tier: cells}, selection, _unplanned(spec, infra, selection))


def _unplanned(spec: Spec, infra: str, selection: PlanSelection) -> tuple[Cell, ...]:
    """Return the cells that are named by their ids and could be planned there, whether they are or not.

    Those of another night are such cells, and those that a plan had before.
    """
    cells = [cell for name in selection.named if (cell := cell_named(spec, name)) is not None]
    if not cells:
        return ()
    goal = goal_of(spec, selection.tier, infra)
    return tuple(cell for cell in cells if goal.allows(cell.values))


def _without_cells(spec: Spec, tier: str, infra: str) -> Iterator[str]:
    """Say why a tier has no cell on an infra profile."""
    yield from not_runnable(spec, tier, infra)
    if spec.tiers[tier].cover is not None:
        for axis, reasons in goal_of(spec, tier, infra).emptied.items():
            yield from (f"no {axis} is left to plan cells with:", *reasons)


def choose(
    spec: Spec, planned: Mapping[str, Sequence[Cell]], selection: PlanSelection, named: Sequence[Cell] = ()
) -> tuple[Selected, ...]:
    """Return the cells that are meant, out of the planned ones of each tier and `named` ones that no plan has.

    Raises as `selected` does.
    """
    if selection.tier is not None:
        tier_of(spec, selection.tier)
    tiers: dict[str, tuple[str, ...]] = {}
    for tier, cells in planned.items():
        for cell in cells:
            tiers[cell.id] = (*tiers.get(cell.id, ()), tier)
    among = planned[selection.tier] if selection.tier is not None else [c for cells in planned.values() for c in cells]
    why = (f"tier {selection.tier}",) if selection.tier is not None else ()
    candidates = {cell.id: Candidate(cell, tiers[cell.id], why) for cell in among}
    for cell in named:
        candidates.setdefault(cell.id, Candidate(cell, (), ()))
    candidates_left = _filtered(spec, candidates, selection)
    if selection.failed is not None:
        whole = selection.tier is None and not selection.filters
        candidates_left = _only_failed(candidates_left, selection.failed, whole=whole)
    if selection.changed is not None:
        candidates_left = _only_affected(spec, candidates_left, selection.changed)
    if not candidates_left:
        raise NothingSelected("no cell is selected", hint=SHOWS)
    return tuple(
        Selected(candidate.cell, candidate.tiers, ", ".join(candidate.why) or "every cell")
        for candidate in candidates_left.values()
    )


def _filtered(spec: Spec, candidates: Mapping[str, Candidate], selection: PlanSelection) -> dict[str, Candidate]:
    """Keep the cells that fit the filters, and say by which."""
    ids = [word for word in selection.filters if "=" not in word]
    by_axis: dict[str, list[str]] = {}
    for word in selection.filters:
        axis, equals, value = word.partition("=")
        if equals:
            _known_value(spec, axis, value)
            by_axis.setdefault(axis, []).append(value)
    for word in ids:
        if not any(fnmatch.fnmatchcase(name, word) for name in candidates):
            where = f"tier {selection.tier}" if selection.tier is not None else "any tier"
            raise NothingSelected(f"no cell matches {word!r} in {where}", hint=_shown(candidates))
    kept: dict[str, Candidate] = {}
    for name, candidate in candidates.items():
        reasons = [next((word for word in ids if fnmatch.fnmatchcase(name, word)), "")] if ids else []
        for axis, values in by_axis.items():
            fits = next((value for value in values if _fits(spec, candidate.cell, axis, value)), "")
            reasons.append(f"{axis}={fits}" if fits else "")
        if all(reasons):
            kept[name] = candidate.because(*reasons)
    if not kept and by_axis:
        raise NothingSelected(
            f"no cell has {' and '.join(w for w in selection.filters if '=' in w)}", hint=_shown(candidates)
        )
    return kept


def _shown(cells: Mapping[str, Candidate]) -> str:
    names = list(cells)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"`vmatrix list` shows the cells: {', '.join(names[:NAMED])}{more}"


def _known_value(spec: Spec, axis: str, value: str) -> None:
    """Refuse a filter on an axis or a value that the matrix does not have."""
    axes = {known.name: known for known in spec.axes}
    if axis not in axes:
        raise BadInput(unknown("axis", axis, axes), hint="filters are cell ids, globs of them, and AXIS=VALUE")
    if value.startswith(CLASS):
        what, word, known = "class", value.removeprefix(CLASS), [v.class_ for v in axes[axis].values]
    else:
        what, word, known = "value", value, [v.id for v in axes[axis].values]
    if not fnmatch.filter(known, word):
        hint = f"{axis}=VALUE or {axis}=class:CLASS; both may be globs"
        raise BadInput(unknown(f"{what} of axis {axis}", word, dict.fromkeys(known)), hint=hint)


def _fits(spec: Spec, cell: Cell, axis: str, value: str) -> bool:
    if value.startswith(CLASS):
        return fnmatch.fnmatchcase(spec.value(axis, cell.values[axis]).class_, value.removeprefix(CLASS))
    return fnmatch.fnmatchcase(cell.values[axis], value)


def _only_failed(candidates: Mapping[str, Candidate], failed: Failed, *, whole: bool) -> dict[str, Candidate]:
    """Keep a run's failed cells; where nothing else was asked for, each of them must still be planned."""
    gone = [name for name in failed.cells if name not in candidates]
    if gone and whole:
        raise BadInput(f"no longer in the plan: {', '.join(gone)}", hint="start a new run: `vmatrix list` shows cells")
    if not failed.cells:
        raise NothingSelected(f"every cell of run {failed.run} passed", hint="omit --failed to select all cells")
    why = f"did not pass in run {failed.run}"
    return {name: candidate.because(why) for name, candidate in candidates.items() if name in failed.cells}


def _only_affected(spec: Spec, candidates: Mapping[str, Candidate], changes: Changes) -> dict[str, Candidate]:
    """Keep the cells that changed files can affect, and the first other one: if that fails, it was not the change."""
    effect = effects(spec, changes.paths)
    reasons = {name: effect.on(candidate.cell) for name, candidate in candidates.items()}
    if not any(reasons.values()):
        message = f"no file changed since {changes.since} affects a cell"
        raise NothingSelected(message, hint="omit --changed-since to select all cells", detail="\n".join(changes.paths))
    control = next((name for name, reason in reasons.items() if not reason), None)
    reasons = {**reasons, **({control: "control: no change affects it"} if control is not None else {})}
    return {name: candidate.because(reasons[name]) for name, candidate in candidates.items() if reasons[name]}
