"""Other cells every night: they cover the same, follow from the date, and can be run by their ids alone."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from harness.errors import BadInput, NothingSelected
from harness.paths import packaged_dir
from harness.plan import PlanSelection, make_cell, selected
from harness.plan.cells import cell_named
from harness.plan.goal import goal_of
from harness.plan.lock import runnable
from harness.plan.rotation import night_cells, night_of
from harness.plan.tiers import all_tier_cells, tier_cells
from harness.plan.verify import verify
from harness.spec import Spec, load_spec
from harness.spec.models.tiers import Tier

NIGHT = date(2026, 11, 28)
TIER, INFRA = "nightly", "kubevirt-offline"
TIER_OF = {"label": "x", "suites": ("nodes",), "budget": {"cells": 1, "machines": 1, "minutes": 1}}


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load_spec(packaged_dir() / "matrix")


def test_nights_cover_what_the_tier_asks_for_with_other_cells_and_no_more(spec: Spec) -> None:
    """Plans two nights, which takes a second or two each."""
    locked = tier_cells(spec, TIER, INFRA)
    goal, pinned = goal_of(spec, TIER, INFRA), runnable(spec, TIER, INFRA)
    nights = [night_cells(spec, TIER, INFRA, night, len(locked)) for night in (NIGHT, date(2026, 11, 29), NIGHT)]
    assert nights[0] == nights[2]
    assert nights[0] != nights[1]
    for rows in nights[:2]:
        assert verify(goal, [*pinned, *rows]).complete
        assert len(pinned) + len(rows) <= 1.05 * len(locked)


def test_every_planned_id_leads_back_to_its_cell(spec: Spec) -> None:
    cells = {cell.id: cell for cells in all_tier_cells(spec, "embedded").values() for cell in cells}
    assert {name: found.values for name in cells if (found := cell_named(spec, name)) is not None} == {
        name: cell.values for name, cell in cells.items()
    }


@pytest.mark.parametrize("name", ["", "k1363", "k1363-d13-c2-fl-nf-c1w1-reset-m-000000", "a-b-c", "-123456"])
def test_what_no_values_make_is_the_id_of_no_cell(spec: Spec, name: str) -> None:
    assert cell_named(spec, name) is None


def test_a_cell_that_no_plan_has_is_run_by_its_id(spec: Spec) -> None:
    planned = {cell.id for cells in all_tier_cells(spec, "embedded").values() for cell in cells}
    usual = next(iter(tier_cells(spec, "smoke", "embedded"))).values
    cell = make_cell(spec, {**usual, "scenario": "power-loss", "kubeadm": "customised", "ip": "ipv6"})
    assert cell.id not in planned
    for tier in (None, TIER):
        (one,) = selected(spec, "embedded", PlanSelection((cell.id,), tier=tier, night=NIGHT))
        assert (one.cell.values, one.why) == (cell.values, cell.id)
    with pytest.raises(NothingSelected, match="no cell matches"):
        selected(spec, "embedded", PlanSelection((cell.id,), tier="mr"))


@pytest.mark.parametrize(
    ("tier", "typed", "expected"),
    [
        ("nightly", None, date(2026, 11, 27)),
        ("nightly", "2026-01-31", date(2026, 1, 31)),
        ("smoke", None, None),
        ("full", None, None),
        (None, None, None),
    ],
)
def test_the_night_is_the_date_that_was_typed_or_today(
    spec: Spec, tier: str | None, typed: str | None, expected: date | None
) -> None:
    assert night_of(spec, tier, typed, datetime(2026, 11, 27, 23, 59, tzinfo=UTC)) == expected


@pytest.mark.parametrize(
    ("tier", "typed", "said"),
    [
        ("nightly", "yesterday", "--night 'yesterday' is not a date"),
        ("nightly", "2026-02-30", "is not a date"),
        ("nightly", "20260131", "is not a date"),
        ("smoke", "2026-01-31", "every night of tier smoke has the same cells"),
        (None, "2026-01-31", "every night of a run without --tier has the same cells"),
    ],
)
def test_a_night_that_cannot_be_is_refused(spec: Spec, tier: str | None, typed: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        night_of(spec, tier, typed)


@pytest.mark.parametrize(
    ("every_hours", "rotate", "rotates"),
    [(24, None, True), (24, False, False), (None, None, False), (None, True, True)],
)
def test_a_tier_rotates_when_a_schedule_runs_it_or_as_it_says(
    every_hours: float | None, rotate: bool | None, rotates: bool
) -> None:
    given = {**TIER_OF, "cover": {"strength": 1}, "every_hours": every_hours, "rotate": rotate}
    assert Tier.model_validate(given).rotates is rotates


def test_pinned_cells_do_not_rotate() -> None:
    with pytest.raises(ValueError, match="`rotate` changes planned cells"):
        Tier.model_validate({**TIER_OF, "pinned": ({"os": "d"},), "rotate": True})
