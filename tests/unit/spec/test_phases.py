"""Phases that a product lacks leave scenarios out; what nobody knows as a phase is a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import PROJECT, packaged_dir
from harness.spec import load_spec
from harness.spec.phases import lacking

PRODUCT = "product: {{name: ours, directory: ., phases: {{{phases}}}}}\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The matrix directory of a project with a playbook."""
    (tmp_path / "matrix").mkdir()
    (tmp_path / "site.yml").write_text("- hosts: all  # cluster_kubeconfig_path\n", encoding="utf-8")
    monkeypatch.setenv(PROJECT, str(tmp_path))
    return tmp_path / "matrix"


def product(own: Path, *phases: str) -> None:
    said = ", ".join(f"{phase}: {{playbook: site.yml}}" for phase in phases)
    (own / "product.yml").write_text(PRODUCT.format(phases=said), encoding="utf-8")


def test_a_product_file_is_all_that_a_project_needs(own: Path) -> None:
    product(own, "deploy")
    spec = load_spec(own)
    assert lacking(spec, "fresh") == ()
    assert lacking(spec, "scale") == ("scale-out", "scale-in")
    assert lacking(spec, "reset") == ("reset",)


def test_a_phase_is_told_once(own: Path) -> None:
    product(own, "deploy")
    (own / "scenarios.yml").write_text(
        """\
extends: default
scenarios:
  twice:
    label: two upgrades
    phases:
      - {phase: deploy, then: it works}
      - {phase: upgrade, then: it works}
      - {phase: upgrade, then: it works}
""",
        encoding="utf-8",
    )
    assert lacking(load_spec(own), "twice") == ("upgrade",)


@pytest.mark.parametrize(("wrong", "near"), [("scaleout", "scale-out"), ("upgrades", "upgrade"), ("resett", "reset")])
def test_a_typo_in_the_product_is_a_mistake(own: Path, wrong: str, near: str) -> None:
    product(own, "deploy", wrong)
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    assert "1 error" in caught.value.summary
    assert f"product.yml:1: product.phases.{wrong}: no scenario has the phase '{wrong}'" in caught.value.summary
    assert f"did you mean '{near}'?" in caught.value.summary


def test_a_project_with_fewer_scenarios_may_keep_the_packaged_product(own: Path) -> None:
    (own / "scenarios.yml").write_text("extends: default\nscenarios: {reset: null}\n", encoding="utf-8")
    values = "extends: default\naxes: [{name: scenario, values: [{id: reset, remove: true}]}]\n"
    (own / "axes.yml").write_text(values, encoding="utf-8")
    naming_it = ("customised", "dual", "ipv6", "policies", "operator", "operator-lifecycle")
    tiers = f"extends: default\ntiers: {{{', '.join(f'{tier}: null' for tier in naming_it)}}}\n"
    (own / "tiers.yml").write_text(tiers, encoding="utf-8")
    assert "reset" in load_spec(own).product.phases


def test_a_phase_of_ones_own_is_in_both_files(own: Path) -> None:
    phases = "[{phase: deploy, then: it works}, {phase: repaint, then: it works}]"
    rotate = f"extends: default\nscenarios: {{repaint: {{label: renewed, phases: {phases}}}}}\n"
    (own / "scenarios.yml").write_text(rotate, encoding="utf-8")
    product(own, "deploy")
    with pytest.raises(BadInput, match=r"unknown phase 'repaint'; known: .*; a phase of your own is one of product"):
        load_spec(own)
    product(own, "deploy", "repaint")
    assert lacking(load_spec(own), "repaint") == ()


RESTARTS = """\
extends: default
scenarios:
  again:
    label: machines reboot
    phases:
      - {{phase: deploy, then: it works}}
      - {{phase: reboot, then: it works, {more}}}
"""


def test_a_phase_in_which_machines_restart_needs_nothing_of_a_product(own: Path) -> None:
    product(own, "deploy")
    (own / "scenarios.yml").write_text(RESTARTS.format(more="restart: power-cut"), encoding="utf-8")
    assert lacking(load_spec(own), "again") == ()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("restart: sometimes", "restart"),
        ("restart: all-at-once, workload: keeps-answering", "no workload answers while all machines restart"),
        ("restart: power-cut, remove: {node: 1}", "runs nothing of the product; remove remove"),
        ("restart: power-cut, cluster: false", "runs nothing of the product; remove cluster"),
    ],
)
def test_a_restart_that_makes_no_sense_is_a_mistake(own: Path, more: str, said: str) -> None:
    product(own, "deploy")
    (own / "scenarios.yml").write_text(RESTARTS.format(more=more), encoding="utf-8")
    with pytest.raises(BadInput, match=said) as caught:
        load_spec(own)
    assert "scenarios.yml" in str(caught.value)


def test_a_scenario_does_not_begin_with_a_restart(own: Path) -> None:
    product(own, "deploy")
    text = RESTARTS.format(more="restart: power-cut").replace(
        "then: it works}", "then: it works, restart: power-cut}", 1
    )
    (own / "scenarios.yml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="the first phase must deploy a cluster"):
        load_spec(own)


def test_a_constraint_that_ships_may_allow_what_a_project_does_not_have_and_its_own_may_not(own: Path) -> None:
    values = "extends: default\naxes: [{name: network, values: [{id: routes, remove: true}]}]\n"
    (own / "axes.yml").write_text(values, encoding="utf-8")
    tiers = "extends: default\ntiers: {dual: null, conformance: null}\n"  # which name it
    (own / "tiers.yml").write_text(tiers, encoding="utf-8")
    mine = "extends: default\nconstraints: [{if: {runtime: crio-1.34}, then: {network: routes}, why: mine}]\n"
    (own / "constraints.yml").write_text(mine, encoding="utf-8")
    with pytest.raises(BadInput, match=r"constraints.yml:2: .*unknown value of axis network 'routes'"):
        load_spec(own)


DELIVERS = """\
extends: default
scenarios:
  ship:
    label: an application
    phases:
      - {phase: deploy, then: it works%s}
      - {phase: upgrade, then: it works%s}
      - {phase: upgrade, then: it works%s}
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("", "answers", "rolls-back"), ""),
        (("", "answers", "comes-back"), ""),
        (("answers", "", ""), "no cluster exists before this phase"),
        (("", "rolls-back", ""), "nothing was delivered before this phase"),
        (("", "comes-back", "answers"), "nothing was delivered before this phase"),
        (("", "sometimes", ""), "delivery"),
    ],
)
def test_what_becomes_of_a_delivery_needs_one_before(own: Path, words: tuple[str, str, str], said: str) -> None:
    product(own, "deploy", "upgrade")
    told = tuple(f", delivery: {word}" if word else "" for word in words)
    (own / "scenarios.yml").write_text(DELIVERS % told, encoding="utf-8")
    if not said:
        assert [one.delivery or "" for one in load_spec(own).scenarios["ship"].phases] == list(words)
        return
    with pytest.raises(BadInput, match=said) as caught:
        load_spec(own)
    assert "scenarios.yml" in str(caught.value)


def test_a_phase_of_a_product_beside_the_own_one_is_known() -> None:
    spec = load_spec(packaged_dir() / "matrix")
    assert lacking(spec, "deliver") == ("deliver", "deliver-bad", "put-back")
    assert lacking(spec, "deliver", spec.products["operator"]) == ()
