"""Scenarios that start from earlier values, in projects whose axes have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import PROJECT
from harness.plan.build import plan_tier
from harness.plan.coverage import coverage_text
from harness.plan.lock import runnable
from harness.spec import Spec, load_spec, starts

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


@pytest.mark.parametrize(
    ("text", "gone"), [(FEWER + LATEST, {"upgrade-hops"}), (NONE + LATEST, {"upgrade-hops", "upgrade-minor"})]
)
def test_a_scenario_that_ships_is_left_out_where_no_value_is_late_enough(own: Path, text: str, gone: set[str]) -> None:
    spec = with_axes(own, text)
    assert starts.left_out(spec) == gone
    for infra in spec.infras:
        plan = plan_tier(spec, "lifecycle", infra)
        assert {out.value for out in plan.goal.left_out if out.by == "matrix"} == gone
        assert {cell.scenario for cell in plan.cells} & gone == set()
        assert plan.proof is not None
        assert plan.proof.complete
        assert {cell["scenario"] for cell in runnable(spec, "operator-lifecycle", infra)} & gone == set()
    said = "starts from an earlier kubernetes (minor, minor), which no value has"
    assert f"- scenario upgrade-hops: {said}" in coverage_text(spec, [plan])
    absent = plan_tier(spec, "operator-lifecycle", "embedded").absent
    assert any(f"hops-m-o-443304 is left out: scenario upgrade-hops {said}" in sentence for sentence in absent)


def test_a_pinned_cell_that_ships_is_left_out_where_its_own_value_is_not_late_enough(own: Path) -> None:
    spec = with_axes(own, FEWER)
    assert starts.left_out(spec) == set()
    assert "upgrade-hops" not in {cell["scenario"] for cell in runnable(spec, "operator-lifecycle", "embedded")}
    absent = plan_tier(spec, "operator-lifecycle", "embedded").absent
    said = "scenario upgrade-hops starts from an earlier kubernetes (minor, minor), which 1.36.3 does not have"
    assert any(f"hops-m-o-443304 is left out: {said}" in sentence for sentence in absent)
    for tier in spec.tiers:
        for infra in spec.infras:
            proof = plan_tier(spec, tier, infra).proof
            assert proof is None or proof.complete


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
    assert starts.left_out(load_spec(own)) == frozenset()


def test_a_scenario_of_ones_own_that_cannot_be_is_a_mistake(own: Path) -> None:
    (own / "scenarios.yml").write_text(OWN, encoding="utf-8")
    more = "  - {name: scenario, values: [{id: skip, slug: skip, label: over one release, class: skip}]}\n"
    with pytest.raises(BadInput, match="no cell can have skip: skip starts from an earlier kubernetes") as caught:
        with_axes(own, FEWER + LATEST + more)
    assert "upgrade-hops" not in caught.value.summary


def test_a_word_that_no_axis_has_is_a_mistake_also_in_a_scenario_that_ships(own: Path) -> None:
    phases = "[{phase: deploy, then: it runs, values: {kubernetes: minr}}, {phase: upgrade, then: it runs}]"
    text = f"extends: default\nscenarios: {{upgrade-minor: {{phases: {phases}}}}}\n"
    (own / "scenarios.yml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="unknown word of `before` on axis kubernetes 'minr'"):
        with_axes(own, NONE)
