"""What the cells of a tier are: without a lock, where the product lacks phases, and other ones every night."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.errors import BadInput, NothingSelected
from harness.paths import PROJECT, packaged_dir
from harness.plan import make_cell
from harness.plan.build import plan_tier
from harness.plan.cells import cell_named
from harness.plan.coverage import coverage_text
from harness.plan.goal import goal_of
from harness.plan.lock import FILE, Lock, load_lock, runnable
from harness.plan.select import PlanSelection, selected
from harness.plan.tiers import all_tier_cells, night_cells, night_of, tier_cells
from harness.plan.verify import verify
from harness.session.explain import why
from harness.spec import Spec, load_spec
from harness.spec.models.tiers import Tier
from tests.unit.plan.planned import edit
from tests.unit.plan.planned import locked_matrix as matrix
from tests.unit.plan.small import plan_all

__all__ = ["matrix"]

pytestmark = pytest.mark.usefixtures("planned_once")

REASON = "needs the phase upgrade, which a product does not have"


@pytest.fixture
def lacking(matrix: Path) -> Spec:
    """The small matrix with a product that only deploys; its lock is from before."""
    edit(matrix / "product.yml", "    upgrade: {playbook: cluster.yml}\n", "")
    return load_spec(matrix)


def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a product file and nothing else, with a product that only deploys."""
    (tmp_path / "matrix").mkdir()
    (tmp_path / "vmatrix.yml").touch()
    (tmp_path / "site.yml").write_text("- hosts: all  # cluster_kubeconfig_path\n", encoding="utf-8")
    text = "product: {name: ours, directory: ., phases: {deploy: {playbook: site.yml}}}\n"
    (tmp_path / "matrix" / "product.yml").write_text(text, encoding="utf-8")
    monkeypatch.setenv(PROJECT, str(tmp_path))
    return tmp_path / "matrix"


def test_without_a_lock_of_its_own_a_project_is_planned_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = bare(tmp_path, monkeypatch)
    spec = load_spec(directory)
    for infra in spec.infras:
        for tier, cells in all_tier_cells(spec, infra).items():
            assert {phase.name for cell in cells for phase in cell.phases if not phase.restart} <= {"deploy"}
            if spec.tiers[tier].cover is not None:
                assert verify(goal_of(spec, tier, infra), [cell.values for cell in cells]).complete
    assert tier_cells(spec, "nightly", "embedded") == plan_tier(spec, "nightly", "embedded", load_lock(directory)).cells
    assert not (directory / FILE).exists()


def test_cells_that_are_still_possible_keep_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = bare(tmp_path, monkeypatch)
    spec, lock = load_spec(directory), load_lock(directory)
    old = {name for name, values in lock.cells("embedded", "mr").items() if values["scenario"] == "fresh"}
    assert old
    assert old <= {cell.id for cell in tier_cells(spec, "mr", "embedded")}


def test_the_packaged_lock_counts_where_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vmatrix.yml").touch()
    monkeypatch.setenv(PROJECT, str(tmp_path))
    monkeypatch.setattr("harness.plan.build.plan_tier", None)
    spec = load_spec(tmp_path / "matrix")
    assert len(tier_cells(spec, "nightly", "embedded")) > 1


def test_a_lock_of_ones_own_must_be_up_to_date(matrix: Path, lacking: Spec) -> None:
    with pytest.raises(BadInput, match="the plan of nightly on kubevirt is out of date"):
        tier_cells(lacking, "nightly", "kubevirt", load_lock(matrix))


def test_what_a_lacking_phase_leaves_out_is_said(matrix: Path, lacking: Spec) -> None:
    pinned = '{kubernetes: "1.35", os: debian-13, topology: one, scenario: fresh}'
    edit(matrix / "tiers.yml", pinned, pinned.replace("fresh", "upgrade"))
    spec = load_spec(matrix)
    plans = {(p.tier, p.infra): p for p in plan_all(spec, load_lock(matrix))}
    assert all("upgrade" not in cell.values.values() for plan in plans.values() for cell in plan.cells)
    assert plans["smoke", "embedded"].pinned == ()
    (sentence,) = [s for s in plans["smoke", "embedded"].absent if "cloud" not in s]
    assert sentence.endswith(f"is left out: scenario upgrade {REASON}")
    for plan in plans.values():
        assert [out.why for out in plan.goal.left_out if out.by == "product"] == [REASON]
        assert plan.proof is None or plan.proof.complete
    text = coverage_text(spec, list(plans.values()))
    assert (
        f"a product does not have every phase and group. So these are left out:\n\n- scenario upgrade: {REASON}\n"
        in text
    )
    assert text.count(f"- scenario upgrade: {REASON}") == 1, "once, and not for each infra profile"
    assert "| scenario | upgrade |" not in text
    assert sentence in text


def test_a_tier_that_loses_every_scenario_says_so(matrix: Path, lacking: Spec) -> None:
    edit(matrix / "tiers.yml", "where: {scenario: fresh}", "where: {scenario: upgrade}")
    spec = load_spec(matrix)
    plan = plan_tier(spec, "little", "kubevirt")
    assert (plan.cells, plan.proof is not None and plan.proof.complete) == ((), True)
    assert "nothing to plan: no scenario is left" in coverage_text(spec, [plan])
    with pytest.raises(NothingSelected) as caught:
        selected(spec, "kubevirt", PlanSelection(tier="little"), Lock(load_lock(matrix).document, own=False))
    assert caught.value.exit_code == 4
    assert caught.value.detail.splitlines() == [
        "no scenario is left to plan cells with:",
        f"scenario upgrade: {REASON}",
        "scenario fresh: excluded by `where` of the tier little",
    ]


def test_why_tells_of_cells_that_no_file_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_spec(bare(tmp_path, monkeypatch))
    cell = tier_cells(spec, "nightly", "embedded")[-1]
    found = why(spec, "nightly", "embedded", cell.id)
    assert found.only
    possible = {"fresh", "reboot", "power-loss"}  # no phase but deploy
    assert {dict(c.values).get("scenario", "fresh") for c in found.first} <= possible


@pytest.mark.parametrize(
    "command", [["plan", "-v"], ["list", "-v"], ["plan", "-v", "--tier", "lifecycle"], ["explain", "*-c1w1-*"]]
)
def test_every_command_works_on_such_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    bare(tmp_path, monkeypatch)
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.exception
    if "-v" in command:
        assert "scenario scale needs the phases scale-out and scale-in, which ours does not have" in done.stdout
        assert "upgrade-runtime: needs the phase upgrade, which ours does not have" in done.stdout


def test_the_plan_of_such_a_project_can_be_written_and_is_then_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path, monkeypatch)
    written = CliRunner().invoke(app, ["plan", "--write"])
    assert written.exit_code == 0, written.exception
    assert CliRunner().invoke(app, ["plan", "--check"]).exit_code == 0


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
