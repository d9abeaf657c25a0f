"""Products beside product.yml: whose they are, what they share with it, and mistakes at their lines."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from harness.errors import BadInput
from harness.paths import PROJECT, packaged_dir
from harness.plan.cells import make_cell
from harness.plan.goal import goal_of
from harness.plan.lock import runnable
from harness.spec import load_spec

PACKAGED = packaged_dir() / "matrix"
OURS = "product:\n  name: ours\n  kind: command\n  directory: .\n  phases: {deploy: {command: [./run.sh]}}\n"
OBJECT = "{apiVersion: own.example/v1, kind: Guest, name: it}"
DECLARED = f"""\
product:
  name: our controllers
  kind: declared
  directory: matrix
  declared:
    object: {OBJECT}
    done: {{condition: Ready}}
    failed: {{condition: Failed}}
    kubeconfig: {{secret: it}}
  phases:
    deploy: {{apply: guest.yml.j2}}
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The matrix directory of a project with programs of its own."""
    (tmp_path / "matrix" / "products").mkdir(parents=True)
    program = tmp_path / "run.sh"
    program.write_text("#!/bin/sh\n: $cluster_kubeconfig_path\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv(PROJECT, str(tmp_path))
    return tmp_path / "matrix"


def declared(own: Path, text: str = DECLARED) -> None:
    (own / "products" / "operator.yml").write_text(text, encoding="utf-8")
    (own / "guest.yml.j2").write_text("{{ variables.x }}\n", encoding="utf-8")


def said(own: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    return caught.value.summary


def test_the_packaged_operator_shares_what_it_does_not_say_itself() -> None:
    spec = load_spec(PACKAGED)
    operator = spec.products["operator"]
    assert (operator.name, operator.kind, spec.product.kind) == ("vmatrix operator", "declared", "ansible")
    assert (operator.vars, operator.cluster, operator.checks) == (
        spec.product.vars,
        spec.product.cluster,
        spec.product.checks,
    )
    assert spec.product_of({"product": "operator"}) == operator
    assert spec.product_of({"product": "playbooks"}) == spec.product_of({}) == spec.product


def test_a_project_with_a_product_of_its_own_does_not_get_the_packaged_operator(own: Path) -> None:
    (own / "product.yml").write_text(OURS, encoding="utf-8")
    spec = load_spec(own)
    assert spec.products == {}
    goal = goal_of(spec, "nightly", "embedded")
    assert goal.values["product"] == ("playbooks",)
    gone = [out for out in goal.left_out if out.axis == "product"]
    assert [(out.value, out.by) for out in gone] == [("operator", "product"), ("operator-vm", "product")]
    assert all("this project has one of its own, ours" in out.why for out in gone)
    assert runnable(spec, "operator", "embedded") == ()


def test_a_project_that_amends_the_product_keeps_the_operator_with_what_it_amends(own: Path) -> None:
    amended = "extends: default\nproduct: {vars: {cluster_dns_domain: our.own}}\n"
    (own / "product.yml").write_text(amended, encoding="utf-8")
    spec = load_spec(own)
    assert spec.products["operator"].vars["cluster_dns_domain"] == "our.own"
    assert Path(spec.products["operator"].directory) == PACKAGED / "products" / "operator"


def test_a_project_may_have_a_file_of_that_name_for_controllers_of_its_own(own: Path) -> None:
    (own / "product.yml").write_text(OURS, encoding="utf-8")
    declared(own)
    spec = load_spec(own)
    assert spec.products["operator"].name == "our controllers"
    values = {**spec.tiers["smoke"].pinned[0], "product": "operator"}
    assert make_cell(spec, values).phases[0].name == "deploy"
    assert values in goal_values(own)


def goal_values(own: Path) -> list[dict[str, str]]:
    return list(runnable(load_spec(own), "operator", "embedded"))


RESTARTS = {"reboot", "power-loss"}  # no phase of a product


@pytest.mark.parametrize(
    ("phases", "scenarios"),
    [
        (("deploy", "reset"), {"fresh", "reset"} | RESTARTS),
        (
            ("deploy", "upgrade", "reset"),
            {"fresh", "upgrade-patch", "upgrade-minor", "upgrade-hops", "reset"} | RESTARTS,
        ),
        (
            (),
            set(load_spec(PACKAGED).scenarios) - {"upgrade-runtime"},
        ),  # from a runtime that 1.36 is not for
    ],
)
def test_a_product_is_kept_to_the_scenarios_whose_phases_it_has(phases: tuple[str, ...], scenarios: set[str]) -> None:
    """Without phases here, the packaged operator has all of its own."""
    spec = load_spec(PACKAGED)
    packaged = spec.products["operator"]
    has = {name: phase for name, phase in packaged.phases.items() if name in phases or not phases}
    lacking = spec.model_copy(update={"products": {"operator": packaged.model_copy(update={"phases": has})}})
    goal = goal_of(lacking, "nightly", "embedded")
    cell = {axis: values[0] for axis, values in goal.values.items()} | {
        "kubernetes": "1.36.3",
        "runtime": "containerd-2.4",
        "topology": "cp3-w2",
        "network": "flannel",
        "product": "operator",
    }
    assert {name for name in goal.values["scenario"] if goal.allows({**cell, "scenario": name})} == scenarios


def test_a_pinned_cell_has_the_default_of_an_axis_that_it_does_not_name() -> None:
    for tier in load_spec(PACKAGED).tiers.values():
        assert all(cell["product"] in ("playbooks", "operator", "operator-vm") for cell in tier.pinned)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{apply: guest.yml.j2}", "{apply: gone.yml.j2}", "operator.yml:11: product.phases.deploy.apply: the file"),
        (
            "{apply: guest.yml.j2}",
            "{delete: false}",
            "operator.yml:11: product.phases.deploy.apply: missing; a ph",
        ),
        (
            "{apply: guest.yml.j2}",
            "{playbook: a.yml}",
            "deploy.playbook: is for products of kind `ansible`",
        ),
        (
            "{apply: guest.yml.j2}",
            "{delete: true, until: {kind: Copy, name: it, condition: Done}}",
            "operator.yml:11: product.phases.deploy.until: there is nothing to wait for in a phase that",
        ),
        (
            "{apply: guest.yml.j2}",
            "{apply: guest.yml.j2, until: {name: it, condition: Done}}",
            "operator.yml:11: product.phases.deploy.until.kind: missing",
        ),
        ("{condition: Failed}", "{condition: F, record: {path: a}}", "record.path: 'a' is no path such as"),
        ("  phases:", "  sources: {path: a}\n  phases:", "operator.yml:10: product.sources: belongs to product.yml"),
        (
            "  phases:",
            "  ansible: {}\n  phases:",
            "product.ansible: belongs to kind ansible; this product is",
        ),
        (f"    object: {OBJECT}\n", "", "operator.yml:5: product.declared.object: missing; this key is required"),
        ("kind: Guest", "kind: guest", "product.declared.object.kind"),
        ("    kubeconfig", "    install: {namespace: [no.yml]}\n    kubeconfig", "install.namespace[0]: the file"),
        ("guest.yml.j2", "../run.sh", ""),
    ],
)
def test_a_mistake_in_such_a_file_is_said_at_its_line(own: Path, old: str, new: str, message: str) -> None:
    (own / "product.yml").write_text(OURS, encoding="utf-8")
    assert old in DECLARED
    declared(own, DECLARED.replace(old, new))
    if message:
        assert message in said(own)
    else:
        load_spec(own)


def test_a_declared_product_says_which_object_it_edits(own: Path) -> None:
    (own / "product.yml").write_text(OURS, encoding="utf-8")
    text = "product:\n  name: x\n  kind: declared\n  directory: matrix\n  phases: {deploy: {apply: guest.yml.j2}}\n"
    declared(own, text)
    assert "product.declared: missing; a product of kind declared says here which object it edits" in said(own)


def test_a_template_that_does_not_parse_is_said_with_its_line(own: Path) -> None:
    (own / "product.yml").write_text(OURS, encoding="utf-8")
    declared(own)
    (own / "guest.yml.j2").write_text("a: 1\nb: {{ x \n", encoding="utf-8")
    assert "guest.yml.j2:2: not a template" in said(own)


@pytest.mark.parametrize("template", sorted(PACKAGED.rglob("*.j2")), ids=lambda path: str(path.name))
def test_our_own_templates_parse_as_no_command_looks_at_them(template: Path) -> None:
    assert jinja2.Environment(autoescape=False).parse(template.read_text(encoding="utf-8")).body  # noqa: S701 - no HTML


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("{name: product, values: [{id: operator, product: gone.yml}]}", "matrix/gone.yml does not exist"),
        (
            "{name: product, values: [{id: playbooks, product: p.yml}]}",
            "the axis' default is what product.yml des",
        ),
        ("{name: proxy, values: [{id: iptables, product: p.yml}]}", "only values of the axis product may have one"),
    ],
)
def test_a_value_whose_product_makes_no_sense_is_refused(own: Path, axis: str, message: str) -> None:
    (own / "axes.yml").write_text(f"extends: default\naxes:\n  - {axis}\n", encoding="utf-8")
    assert "axes.yml:3: axes" in said(own)
    assert message in said(own)
