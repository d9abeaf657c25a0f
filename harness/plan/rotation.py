"""Other cells every night: what a tier's planned cells are on a date, and what several nights cover together.

Each night covers what the tier asks for; which cells do so follows from the date alone, so that a night can be run
again. Combinations of more axes than a night covers come together over the nights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from harness.errors import BadInput
from harness.plan.cover import covers
from harness.plan.goal import Goal, goal_of, tier_of
from harness.plan.lock import runnable
from harness.plan.verify import covered_by, verify, wanted_by_kind
from harness.spec.models import Cover, Spec
from harness.spec.rules import Row

WEEK, MONTH = 7, 30  # nights
FIRST = date(2026, 1, 1)  # of the nights that are counted; any others cover about as much
TRIPLES = Cover(strength=3, each_value=False)


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
        enough: how many cells, pinned ones included, the night may have at no loss; it has more where none is as short.
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
    wanted = replace(goal, cover=TRIPLES)
    (count,) = verify(wanted, [*pinned, *(cell for rows in nights for cell in rows)]).counts
    ((_, combinations),) = wanted_by_kind(wanted)
    week = covered_by(wanted, [*pinned, *(cell for rows in nights[:WEEK] for cell in rows)], combinations)
    return {"possible": count.feasible, "week": len(week), "month": count.covered}
