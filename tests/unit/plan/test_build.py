"""Planning: cells stay when the matrix grows, and go only with what they were made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan.lock import FILE, load_lock
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from tests.unit.plan.planned import edit, write
from tests.unit.plan.planned import locked_matrix as matrix
from tests.unit.plan.small import plan_all

__all__ = ["matrix"]

SCENARIOS = "      - {id: upgrade, slug: up, label: upgraded, class: upgrade}\n"


TOPOLOGIES = "      - {id: three, slug: t3, label: three machines, class: three}\n"


def ids(matrix: Path, infra: str = "kubevirt") -> dict[str, set[str]]:
    lock = load_lock(matrix)
    return {tier: set(cells) for tier in lock.plan[infra] for cells in [lock.cells(infra, tier)]}


def test_a_written_lock_is_read_as_it_was_planned_and_planning_again_changes_nothing(matrix: Path) -> None:
    text = (matrix / FILE).read_text()
    for plan in write(matrix):
        assert plan.cells == tier_cells(load_spec(matrix), plan.tier, plan.infra, load_lock(matrix))
        assert (plan.new, plan.dropped) == ((), ())
    assert (matrix / FILE).read_text() == text


@pytest.mark.parametrize(
    ("axis", "new"),
    [
        ("a class of its own", "      - {id: reset, slug: rs, label: reset, class: reset}\n"),
        ("a class that is there", "      - {id: reset, slug: rs, label: reset, class: fresh}\n"),
    ],
)
def test_adding_a_value_keeps_every_cell(matrix: Path, axis: str, new: str) -> None:
    before = {infra: ids(matrix, infra) for infra in ("embedded", "kubevirt")}
    edit(matrix / "axes.yml", SCENARIOS, SCENARIOS + new)
    edit(
        matrix / "scenarios.yml",
        "  upgrade:\n",
        "  reset:\n    label: r\n    phases:\n      - {phase: deploy, then: x}\n  upgrade:\n",
    )
    plans = write(matrix)
    for infra, tiers in before.items():
        for tier, cells in tiers.items():
            assert cells <= ids(matrix, infra)[tier], axis
    assert all(plan.proof.complete for plan in plans if plan.proof is not None)
    assert any(plan.new for plan in plans)


def test_removing_a_value_drops_only_the_cells_that_had_it(matrix: Path) -> None:
    before = {tier: load_lock(matrix).cells("kubevirt", tier) for tier in ("nightly", "little")}
    edit(matrix / "axes.yml", TOPOLOGIES, "")
    (matrix / "constraints.yml").write_text("constraints: []\n")
    edit(matrix / "tiers.yml", "topology: two", "topology: one")
    write(matrix)
    for tier, cells in before.items():
        assert {i for i, values in cells.items() if values["topology"] != "three"} <= ids(matrix)[tier]
        assert not {i for i, values in cells.items() if values["topology"] == "three"} & ids(matrix)[tier]


def test_a_new_axis_extends_the_cells_that_are_there(matrix: Path) -> None:
    before = load_lock(matrix).cells("kubevirt", "nightly").values()
    edit(
        matrix / "axes.yml",
        "  - name: topology\n",
        "  - name: net\n    label: Network\n    values:\n"
        "      - {id: flannel, slug: fl, label: f, class: flannel}\n"
        "      - {id: routes, slug: ro, label: r, class: routes}\n"
        "  - name: topology\n",
    )
    text = (matrix / "tiers.yml").read_text()
    (matrix / "tiers.yml").write_text(
        text.replace("topology: one", "net: flannel, topology: one").replace(
            "topology: two", "net: flannel, topology: two"
        )
    )
    plans = write(matrix)
    after = [
        {a: v for a, v in c.items() if a != "net"} for c in load_lock(matrix).cells("kubevirt", "nightly").values()
    ]
    assert after[: len(before)] == list(before)
    assert all(plan.proof.complete for plan in plans if plan.proof is not None)


def test_a_new_axis_with_a_default_keeps_every_cell(matrix: Path) -> None:
    before = {tier: ids(matrix)[tier] for tier in ("nightly", "little")}
    edit(
        matrix / "axes.yml",
        "  - name: topology\n",
        "  - name: addons\n    label: Add-ons\n    default: none\n    values:\n"
        "      - {id: none, slug: n, label: none, class: none}\n"
        "      - {id: all, slug: a, label: all, class: all}\n"
        "  - name: topology\n",
    )
    text = (matrix / "tiers.yml").read_text()
    for topology in ("one", "two"):
        text = text.replace(f"topology: {topology}", f"addons: none, topology: {topology}")
    (matrix / "tiers.yml").write_text(text)
    plans = write(matrix)
    assert all(not plan.dropped for plan in plans)
    assert all(before[tier] < ids(matrix)[tier] for tier in before)
    assert all(plan.proof.complete for plan in plans if plan.proof is not None)


def test_repack_plans_anew(matrix: Path) -> None:
    edit(matrix / "axes.yml", TOPOLOGIES, "")
    (matrix / "constraints.yml").write_text("constraints: []\n")
    kept = write(matrix)
    packed = write(matrix, repack=True)
    assert sum(len(p.planned) for p in packed) <= sum(len(p.planned) for p in kept)
    assert [p.planned for p in packed] == [p.planned for p in plan_all(load_spec(matrix))]
