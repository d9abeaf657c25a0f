"""The projects of examples/ are projects as they stand: their files are valid and their tiers have cells."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli import app
from harness.plan.cells import make_cell
from harness.plan.changed import effects
from harness.spec import load_spec
from harness.spec.rules import needed
from tests.unit.pages import ROOT

SCRIPT = ROOT / "examples" / "script"
KUBESPRAY = ROOT / "examples" / "kubespray"
OPERATOR = ROOT / "examples" / "operator"
DELIVERS = {"deliver", "deliver-bad", "put-back"}  # phases that only vmatrix's own matrix has
DELIVERING = (
    '{% if values.scenario in ["deliver", "deliver-guest"] %}'  # what they need begins so, at the end of the template
)


def test_the_scripts_phases_are_those_that_it_knows() -> None:
    product = load_spec(SCRIPT / "matrix").product
    cases = [
        line.split(")")[0].strip() for line in (SCRIPT / "cluster.sh").read_text().splitlines() if ") run_on " in line
    ]
    assert [phase.command for phase in product.phases.values()] == [("./cluster.sh", case) for case in cases]


def test_a_change_of_the_script_affects_its_phases() -> None:
    spec = load_spec(SCRIPT / "matrix")
    assert set(effects(spec, ["cluster.sh"]).phases) == {"deploy", "scale-out", "reset"}
    assert set(effects(spec, ["reset.sh"]).phases) == {"reset"}
    assert effects(spec, ["machine.sh"]).anything == "machine.sh"
    assert effects(spec, ["README.md"]) == effects(spec, [])


def test_by_hand_the_script_runs_where_it_lies() -> None:
    done = CliRunner().invoke(app, ["--project", str(SCRIPT), "explain", "*-reset-*", "--json"])
    assert done.exit_code == 0, done.output
    (told,) = json.loads(done.stdout)
    commands = [phase["command"].partition(" && ")[2] for phase in told["phases"]]
    assert commands == [f"cd {SCRIPT} && {SCRIPT}/cluster.sh {phase}" for phase in ("deploy", "reset", "deploy")]


def test_the_script_has_a_cell_for_each_phase() -> None:
    done = CliRunner().invoke(app, ["--project", str(SCRIPT), "list", "--json"])
    assert done.exit_code == 0, done.output
    phases = [cell["phases"] for cell in json.loads(done.stdout)]
    assert phases == [["deploy"], ["deploy", "scale-out"], ["deploy", "reset", "deploy-2"]]


def test_kubespray_has_its_cells_without_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VMATRIX_PRODUCT_SOURCES", raising=False)
    done = CliRunner().invoke(app, ["--project", str(KUBESPRAY), "list", "--json"])
    assert done.exit_code == 0, done.output
    found = {(cell["values"]["etcd"], *cell["phases"]) for cell in json.loads(done.stdout)}
    assert found == {
        ("kubeadm", "deploy"),
        ("host", "deploy"),
        ("host", "deploy", "scale-out", "scale-in"),
        ("kubeadm", "deploy", "remove-node"),
        ("kubeadm", "deploy", "upgrade"),
        ("host", "deploy", "reset", "deploy-2"),
    }


def test_kubesprays_adapter_imports_its_playbooks_and_has_no_roles() -> None:
    folders = {path.name for path in (KUBESPRAY / "adapter").rglob("*") if path.is_dir()}
    assert folders == {"group_vars", "all", "templates"}
    plays: list[dict[str, Any]] = [
        play for file in (KUBESPRAY / "adapter").glob("*.yml") for play in yaml.safe_load(file.read_text())
    ]
    imported = [str(play["ansible.builtin.import_playbook"]) for play in plays if "hosts" not in play]
    assert sum(name.startswith("{{ product_sources }}/") for name in imported) == 5
    product = load_spec(KUBESPRAY / "matrix").product
    assert {phase.playbook for phase in product.phases.values()} <= {
        file.name for file in (KUBESPRAY / "adapter").glob("*.yml")
    }


def test_the_operators_example_asks_of_it_what_vmatrixs_own_matrix_does() -> None:
    ours, shipped = load_spec(OPERATOR / "matrix").product, load_spec(ROOT / "matrix")
    assert ours.declared == shipped.products["operator"].declared
    phases = shipped.products["operator"].phases
    assert ours.phases == {name: phase for name, phase in phases.items() if name not in DELIVERS}
    assert (ours.vars, ours.cluster) == (shipped.product.vars, shipped.product.cluster)
    folders = ROOT / "matrix" / "products" / "operator", OPERATOR / "objects"
    templates, theirs = ({file.name: file.read_text() for file in folder.glob("*.j2")} for folder in folders)
    templates["cluster.yml.j2"] = templates["cluster.yml.j2"].partition(DELIVERING)[0]
    elsewhere = {"machines.yml.j2", "repository.yml.j2", "tool.yml.j2", "guest-client.yml.j2", "delivery.yml.j2"}
    assert {name: text for name, text in templates.items() if name not in elsewhere} == theirs


def test_the_operators_cells_have_its_phases_and_a_place_for_its_pods() -> None:
    spec = load_spec(OPERATOR / "matrix")
    cells = [make_cell(spec, pinned) for pinned in spec.tiers["clusters"].pinned]
    assert [[cell.stage(n) for n in range(len(cell.phases))] for cell in cells] == [
        ["deploy"],
        ["deploy", "reset", "deploy-2"],
    ]
    assert all("pods" in needed(spec, [cell]) for cell in cells)
