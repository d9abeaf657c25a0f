"""The cells of a tier: the pinned ones, the planned ones of the lock, and other ones every night.

A project without a lock of its own needs none: where the packaged lock does not fit its matrix, a tier is planned when
it is read, the same each time. Once written, the plan keeps its cells when the matrix grows.

Each night covers what the tier asks for; which cells do so follows from the date alone, so that a night can be run
again. Combinations of more axes than a night covers come together over the nights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from harness.errors import BadInput
from harness.model import Cell
from harness.plan.cells import make_cell
from harness.plan.cover import covers
from harness.plan.goal import Goal, goal_of, tier_of
from harness.plan.lock import Lock, current, load_lock, locked, runnable
from harness.plan.verify import covered_by, verify, wanted_by_kind
from harness.spec.models import Cover, Spec
from harness.spec.project import matrix_dir
from harness.spec.rules import Row

WEEK, MONTH = 7, 30  # nights
FIRST = date(2026, 1, 1)  # of the nights that are counted; any others cover about as much
TRIPLES = Cover(strength=3, each_value=False)


def tier_cells(
    spec: Spec, tier: str, infra: str, lock: Lock | None = None, *, night: date | None = None
) -> tuple[Cell, ...]:
    """Return the cells of a tier that an infra profile can run: pinned ones first, then planned ones.

    Args:
        lock: what `load_lock` returned; the project's own without it.
        night: that of a tier whose planned cells differ from night to night; None for the cells of the lock.

    Raises:
        BadInput: there is no such tier or infra profile; the lock is malformed, stale or wrong.
    """
    cells = {cell.id: cell for cell in (make_cell(spec, values) for values in runnable(spec, tier, infra))}
    if spec.tiers[tier].cover is not None:
        planned = list(_planned(spec, tier, infra, lock if lock is not None else load_lock(matrix_dir())))
        if night is not None:
            enough = len({*cells, *(cell.id for cell in planned)})
            planned = [make_cell(spec, values) for values in night_cells(spec, tier, infra, night, enough)]
        for cell in planned:
            cells.setdefault(cell.id, cell)
    return tuple(cells.values())


def all_tier_cells(spec: Spec, infra: str, lock: Lock | None = None) -> dict[str, tuple[Cell, ...]]:
    """Return the cells of every tier that an infra profile can run, by tier; raises what `tier_cells` does."""
    planned = any(tier.cover is not None for tier in spec.tiers.values())
    known = load_lock(matrix_dir()) if lock is None and planned else lock
    return {tier: tier_cells(spec, tier, infra, known) for tier in spec.tiers}


def _planned(spec: Spec, tier: str, infra: str, lock: Lock) -> Iterator[Cell]:
    if lock.own or current(spec, tier, infra, lock, goal_of(spec, tier, infra)):
        yield from (make_cell(spec, values, name) for name, values in locked(spec, tier, infra, lock).items())
    else:
        from harness.plan.build import plan_tier  # a lock that fits makes planning needless

        yield from plan_tier(spec, tier, infra, lock).planned


def night_of(spec: Spec, tier: str | None, text: str | None, now: datetime | None = None) -> date | None:
    """Return the night of a run: the date as it was typed, today (UTC) without one; None where nights do not differ.

    Raises:
        BadInput: it is not a date, or every night has the same cells.
    """
    rotates = tier is not None and tier_of(spec, tier).rotates
    if text is None:
        return (now or datetime.now(UTC)).date() if rotates else None
    try:
        night = date.fromisoformat(text)
    except ValueError:
        night = None
    if night is None or len(text) != len(night.isoformat()):
        raise BadInput(f"--night {text!r} is not a date", hint="write it as in --night 2026-01-31")
    if not rotates:
        of = f"tier {tier}" if tier is not None else "a run without --tier"
        rotating = [name for name, known in spec.tiers.items() if known.rotates]
        hint = (
            f"--night is for --tier {' or '.join(rotating)}" if rotating else "set `rotate: true` in matrix/tiers.yml"
        )
        raise BadInput(f"--night: every night of {of} has the same cells", hint=hint)
    return night


def night_cells(spec: Spec, tier: str, infra: str, night: date, enough: int) -> tuple[Row, ...]:
    """Return the planned cells of a night, without the pinned ones.

    Args:
        enough: with how many cells, pinned ones included, a night is short enough; it has more where none is as short.
    """
    (rows,) = _nights(goal_of(spec, tier, infra), runnable(spec, tier, infra), [night], enough)
    return rows


def _nights(
    goal: Goal, pinned: Sequence[Mapping[str, str]], nights: Iterable[date], enough: int
) -> Iterator[tuple[Row, ...]]:
    return covers(goal, there=pinned, seeds=[night.toordinal() for night in nights], enough=enough)


def triples(spec: Spec, tier: str, infra: str, enough: int, first: date = FIRST) -> dict[str, int]:
    """Return how many triples of classes are possible, and how many of them a week's and a month's nights cover.

    The proof's search counts them, which does not know how the cells were found. Takes a minute.

    Args:
        enough: as for `night_cells`.  first: the first of the nights.
    """
    goal = goal_of(spec, tier, infra)
    pinned = runnable(spec, tier, infra)
    nights = list(_nights(goal, pinned, (first + timedelta(days=n) for n in range(MONTH)), enough))
    over_nights = replace(goal, cover=TRIPLES)
    (count,) = verify(over_nights, [*pinned, *(cell for rows in nights for cell in rows)]).counts
    ((_, combinations),) = wanted_by_kind(over_nights)
    week = covered_by(over_nights, [*pinned, *(cell for rows in nights[:WEEK] for cell in rows)], combinations)
    return {"possible": count.feasible, "week": len(week), "month": count.covered}
