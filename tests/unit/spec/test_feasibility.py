"""A well-formed matrix that can never be: rules in every phase, infra profiles, the length of ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import PROJECT
from harness.plan.build import plan_tier
from harness.plan.coverage import coverage_text
from harness.plan.lock import runnable
from harness.spec import Spec, feasibility, load_spec
from tests.unit.spec.conftest import edit, mistakes


def test_a_wrong_tier_does_not_hide_what_makes_no_sense(matrix: Path) -> None:
    edit(matrix / "tiers.yml", "label: pairs", "labl: pairs")
    edit(matrix / "tiers.yml", "{version: v2, os: deb", "{version: v1, os: ubu")
    assert any("breaks a rule" in line for line in mistakes(matrix))


def test_a_pinned_cell_that_stands_twice(matrix: Path) -> None:
    edit(matrix / "tiers.yml", "fresh}\n", "fresh}\n      - {scenario: fresh, version: v2, os: deb, topology: two}\n")
    edit(matrix / "tiers.yml", "cells: 1", "cells: 2")
    assert mistakes(matrix) == ["tiers.yml:6: tiers.smoke.pinned[1]: duplicates pinned[0]; remove one"]


def test_a_rule_holds_in_every_phase(matrix: Path) -> None:
    """An upgrade to v2 begins with v1, which Ubuntu cannot have."""
    edit(
        matrix / "tiers.yml",
        "{version: v2, os: deb, topology: two, scenario: fresh}",
        "{version: v2, os: ubu, topology: two, scenario: upgrade}",
    )
    (said,) = mistakes(matrix)
    assert "v1 does not install on Ubuntu (in phase deploy of upgrade)" in said


def test_a_cell_that_no_kind_of_infra_can_run_names_what_each_lacks(matrix: Path) -> None:
    edit(matrix / "axes.yml", "class: large}", "class: large, needs: [host-kernel]}")
    edit(matrix / "tiers.yml", "os: deb, topology: two", "os: ubu, topology: two")
    assert mistakes(matrix) == [
        "tiers.yml:5: tiers.smoke.pinned[0]: no infra profile can run the cell: on here: os ubu needs internet; "
        "on there: topology two needs host-kernel; change one of its values"
    ]


def test_only_ids_of_cells_that_can_be_are_measured(matrix: Path) -> None:
    for old, new in (("slug: t2", "slug: twomachine"), ("slug: up", "slug: theupgrade"), ("id: ubu", "id: ubu-24.04")):
        edit(matrix / "axes.yml", old, new)
    edit(matrix / "axes.yml", "id: v3", "id: version-3")
    rule = "  - {if: {topology: two}, then: {scenario: {not: upgrade}}, why: two are not upgraded}"
    edit(matrix / "constraints.yml", "{os: ubu}", "{os: ubu-24.04}")
    edit(matrix / "constraints.yml", "constraints:\n", f"constraints:\n{rule}\n")
    assert mistakes(matrix) == []


def test_a_default_counts_nothing_in_an_id(matrix: Path) -> None:
    for old, new in (("slug: t2", "slug: twomachine"), ("slug: up", "slug: theupgrade"), ("id: ubu", "id: ubu-24.04")):
        edit(matrix / "axes.yml", old, new)
    edit(matrix / "axes.yml", "  - name: topology\n", "  - name: topology\n    default: two\n")
    edit(matrix / "constraints.yml", "{os: ubu}", "{os: ubu-24.04}")
    assert mistakes(matrix) == []


def test_ids_that_can_grow_too_long_name_the_slugs(matrix: Path) -> None:
    for old, new in (("slug: t2", "slug: twomachine"), ("slug: up", "slug: theupgrade"), ("id: ubu", "id: ubu-24.04")):
        edit(matrix / "axes.yml", old, new)
    edit(matrix / "axes.yml", "id: v3", "id: version-3")
    edit(matrix / "constraints.yml", "{os: ubu}", "{os: ubu-24.04}")
    (said,) = mistakes(matrix)
    assert said == (
        "axes.yml:1: axes: a cell's id can be 45 characters long, the limit is 44; use shorter slugs than "
        "version version3, os ubu2404, topology twomachine, scenario theupgrade"
    )


def test_a_machine_whose_disk_is_smaller_than_the_image_of_its_system(matrix: Path) -> None:
    edit(matrix / "topologies.yml", "memory: 1Gi, disk: 10Gi", "memory: 1Gi, disk: 9Gi")
    assert mistakes(matrix) == [
        "topologies.yml:8: topologies.two.machines[1].disk: is smaller than the disk image of deb, which has 10Gi; "
        "use 10Gi or more"
    ]


def test_a_disk_that_is_too_small_for_a_system_which_its_topology_never_has(matrix: Path) -> None:
    edit(matrix / "axes.yml", "class: large}", "class: large, needs: [host-kernel]}")
    edit(matrix / "images.yml", "user: ubuntu\n    size_gib: 10", "user: ubuntu\n    size_gib: 20")
    said = mistakes(matrix)
    assert [line.partition(": ")[0] for line in said] == ["topologies.yml:4"]
    assert "disk image of ubu, which has 20Gi" in said[0]


FEWER = """\
extends: default
axes:
  - name: kubernetes
    values:
      - {id: "1.34.4", remove: true}
      - {id: "1.35.4", before: {minor: null}}
"""
LATEST = '      - {id: "1.37.2", before: {minor: null}}\n'
NONE = (
    FEWER
    + """\
      - {id: "1.36.1", before: {minor: null}}
      - {id: "1.36.3", before: {minor: null}}
"""
)
OWN = """\
extends: default
scenarios:
  skip:
    label: over one release
    phases:
      - {phase: deploy, then: it runs, values: {kubernetes: [minor, minor]}}
      - {phase: upgrade, then: it runs}
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The matrix directory of a project that amends what ships with vmatrix."""
    (tmp_path / "matrix").mkdir()
    (tmp_path / "vmatrix.yml").touch()
    monkeypatch.setenv(PROJECT, str(tmp_path))
    return tmp_path / "matrix"


def with_axes(own: Path, text: str) -> Spec:
    (own / "axes.yml").write_text(text, encoding="utf-8")
    return load_spec(own)


HOPS = {"upgrade-hops", "workers-behind"}  # over two minor releases


@pytest.mark.parametrize(
    ("text", "gone"), [(FEWER + LATEST, HOPS), (NONE + LATEST, {*HOPS, "upgrade-minor", "upgrade-back"})]
)
def test_a_scenario_that_ships_is_left_out_where_no_value_is_late_enough(own: Path, text: str, gone: set[str]) -> None:
    spec = with_axes(own, text)
    assert feasibility.left_out(spec) == gone
    for infra in spec.infras:
        plan = plan_tier(spec, "lifecycle", infra)
        assert {out.value for out in plan.goal.left_out if out.by == "matrix"} == gone
        assert {cell.scenario for cell in plan.cells} & gone == set()
        assert plan.proof is not None
        assert plan.proof.complete
        assert {cell["scenario"] for cell in runnable(spec, "operator-lifecycle", infra)} & gone == set()
    said = "starts from an earlier kubernetes (minor, minor), which no value has"
    assert f"- scenario upgrade-hops, workers-behind: {said}" in coverage_text(spec, [plan])
    absent = plan_tier(spec, "operator-lifecycle", "embedded").absent
    assert any(f"hops-m-o-443304 is left out: scenario upgrade-hops {said}" in sentence for sentence in absent)


def test_a_pinned_cell_that_ships_is_left_out_where_its_own_value_is_not_late_enough(own: Path) -> None:
    spec = with_axes(own, FEWER)
    assert feasibility.left_out(spec) == set()
    assert "upgrade-hops" not in {cell["scenario"] for cell in runnable(spec, "operator-lifecycle", "embedded")}
    absent = plan_tier(spec, "operator-lifecycle", "embedded").absent
    said = "scenario upgrade-hops starts from an earlier kubernetes (minor, minor), which 1.36.3 does not have"
    assert any(f"hops-m-o-443304 is left out: {said}" in sentence for sentence in absent)
    proofs = [plan_tier(spec, tier, "embedded").proof for tier in spec.tiers]
    assert all(proof is None or proof.complete for proof in proofs)


def test_a_pinned_cell_of_ones_own_that_has_nothing_before_it_is_a_mistake(own: Path) -> None:
    cell = (
        'kubernetes: "1.35.4", os: debian-13, runtime: containerd-2.4, network: flannel, proxy: nftables, '
        "topology: cp1-w1, scenario: upgrade-minor, source: mirror, addons: core, product: playbooks"
    )
    tier = f"own: {{label: mine, pinned: [{{{cell}}}], suites: [nodes], budget: {{cells: 1, machines: 3, minutes: 9}}}}"
    (own / "tiers.yml").write_text(f"extends: default\ntiers:\n  {tier}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"upgrade-minor starts from an earlier kubernetes \(minor\), which only some"):
        with_axes(own, FEWER)


def test_the_packaged_matrix_leaves_nothing_out(own: Path) -> None:
    assert feasibility.left_out(load_spec(own)) == frozenset()


def test_a_scenario_of_ones_own_that_cannot_be_is_a_mistake(own: Path) -> None:
    (own / "scenarios.yml").write_text(OWN, encoding="utf-8")
    more = "  - {name: scenario, values: [{id: skip, slug: skip, label: over one release, class: skip}]}\n"
    with pytest.raises(BadInput, match="no cell can have skip: skip starts from an earlier kubernetes") as caught:
        with_axes(own, FEWER + LATEST + more)
    assert "upgrade-hops" not in caught.value.summary


NO_MIDDLE = """\
extends: default
axes:
  - name: kubernetes
    values:
      - {id: "1.35.4", remove: true}
      - {id: "1.36.3", before: {minor: null}}
"""


def own_constraint(own: Path, entry: str) -> Spec:
    (own / "constraints.yml").write_text(f"extends: default\nconstraints:\n  - {entry}\n", encoding="utf-8")
    return with_axes(own, NO_MIDDLE)


def test_a_constraint_that_ships_and_can_never_apply_without_a_value_is_left_alone(own: Path) -> None:
    assert "workers-behind-cells" in {rule.id for rule in with_axes(own, NO_MIDDLE).constraints}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{id: mine, if: {scenario: workers-behind}, then: {source: mirror}, why: mine}", "if: can never apply"),
        ("{id: workers-behind-cells, why: mine}", "if: can never apply"),
        ("{id: ipv6-playbooks, then: {product: [playbooks, operator, operator-vm]}}", "then: has no effect"),
    ],
)
def test_a_constraint_of_ones_own_and_one_that_ships_and_was_changed_are_judged(
    own: Path, entry: str, said: str
) -> None:
    with pytest.raises(BadInput, match=rf"constraints.yml:\d+: constraints\[\d+\]\.{said}"):
        own_constraint(own, entry)


def test_a_word_that_no_axis_has_is_a_mistake_also_in_a_scenario_that_ships(own: Path) -> None:
    phases = "[{phase: deploy, then: it runs, values: {kubernetes: minr}}, {phase: upgrade, then: it runs}]"
    text = f"extends: default\nscenarios: {{upgrade-minor: {{phases: {phases}}}}}\n"
    (own / "scenarios.yml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="unknown word of `before` on axis kubernetes 'minr'"):
        with_axes(own, NONE)
