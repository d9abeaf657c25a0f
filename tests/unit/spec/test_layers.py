"""A project's files over the packaged ones: replaced, amended or missing; mistakes name the file that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from harness.artifacts.disk import catalogue
from harness.errors import BadInput
from harness.paths import PROJECT, packaged_dir
from harness.plan.cells import make_cell
from harness.plan.goal import goal_of
from harness.plan.lock import load_lock, runnable
from harness.spec import lines, load_spec
from harness.spec.declared import EACH
from harness.spec.layers import GONE, RemovedValues, _change_packaged, _conditions, amended, read, read_products
from harness.spec.lines import Document, Problem
from harness.spec.loader import load_timeouts, validate
from harness.spec.models import FILES

PACKAGED = packaged_dir() / "matrix"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The matrix directory of an empty project."""
    (tmp_path / "vmatrix.yml").touch()
    (tmp_path / "matrix").mkdir()
    monkeypatch.setenv(PROJECT, str(tmp_path))
    return tmp_path / "matrix"


def amend(own: Path, file: str, text: str) -> None:
    """Write a file that amends the packaged one."""
    (own / file).write_text(f"extends: default\n{text}", encoding="utf-8")


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_changes_nothing_is_the_packaged_one(own: Path, file: str) -> None:
    absent = read(own, file)
    amend(own, file, "")
    assert read(own, file)[0].content == absent[0].content
    assert load_spec(own) == load_spec(own.parent / "nowhere")


def test_values_of_several_files_are_amended(own: Path) -> None:
    amend(own, "timeouts.yml", "timeouts: {ssh: 7}\n")
    amend(own, "images.yml", "images: [{name: debian-13, size_gib: 11}]\n")
    amend(own, "topologies.yml", "topologies: {cp1-w1: {machines: [{name: w, cpus: 9}]}}\n")
    amend(own, "product.yml", "product: {name: ours, vars: {cluster_dns_domain: our.own}}\n")
    amend(own, "tiers.yml", "tiers: {full: null, nightly: {every_hours: 48}}\n")
    spec, packaged = load_spec(own), load_spec(PACKAGED)
    assert spec.timeouts == packaged.timeouts.model_copy(update={"ssh": 7})
    assert load_timeouts(own).ssh == 7
    assert catalogue.load(own / "images.yml").find("debian-13").size_gib == 11
    assert [(m.name, m.cpus) for m in spec.topologies["cp1-w1"].machines][1] == ("w", 9)
    assert spec.product.vars == {**packaged.product.vars, "cluster_dns_domain": "our.own"}
    assert (spec.product.name, spec.product.phases.keys()) == ("ours", packaged.product.phases.keys())
    assert spec.tiers.keys() == packaged.tiers.keys() - {"full"}
    assert spec.tiers["nightly"].every_hours == 48


def test_a_whole_file_replaces_the_packaged_one(own: Path) -> None:
    (own / "quarantine.yml").write_text("quarantine: []\n", encoding="utf-8")
    (own / "infras.yml").write_text("infras: {desk: {label: d, provider: embedded}}\n", encoding="utf-8")
    assert list(read(own, "infras.yml")[0].content["infras"]) == ["desk"]


def test_mistakes_name_the_file_that_has_them(own: Path) -> None:
    amend(own, "timeouts.yml", "timeouts:\n  ssh: soon\n")
    amend(own, "tiers.yml", "tiers:\n  smoke:\n    suites: [nodse]\n")
    amend(own, "topologies.yml", "topologies: {cp1-w1: null}\n")
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    said = caught.value.summary
    assert f"{own / 'timeouts.yml'}:3: timeouts.ssh: " in said
    assert f"{own / 'tiers.yml'}:4: tiers.smoke.suites[0]: unknown suite" in said
    line = next(n for n, text in enumerate((PACKAGED / "axes.yml").read_text().splitlines(), 1) if "id: cp1-w1" in text)
    assert f"{PACKAGED / 'axes.yml'}:{line}: axes[5].values[1].id: unknown topology" in said
    assert f"{packaged_dir()} has is vmatrix's own: replace or amend it" in caught.value.hint


@pytest.mark.parametrize("word", ["defaults", "[default]", "null"])
def test_only_the_default_can_be_extended(own: Path, word: str) -> None:
    (own / "tiers.yml").write_text(f"tiers: {{}}\nextends: {word}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"1 error in .*\n.*tiers\.yml:2: extends: expected `default`"):
        load_spec(own)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("axes.yml", "axes:\n  - name: kubernetes\n    values: [{id: 1.37, label: x}]\n", "put it in quotes"),
        ("axes.yml", "axes:\n  - nmae: os\n", "has no `name`"),
        ("timeouts.yml", "timeouts:\n  ssh: 7\n  ssh: 8\n", "duplicate key"),
        ("timeouts.yml", "timeouts:\n  shh: 7\n", "unknown key; did you mean ssh?"),
        ("timeouts.yml", "tiemouts: {ssh: 7}\n", "unknown key; did you mean timeouts?"),
        ("timeouts.yml", "timeouts: [\n", "malformed YAML"),
    ],
)
def test_a_mistake_in_changes_makes_no_others(own: Path, file: str, text: str, said: str) -> None:
    amend(own, file, text)
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    lines = [line for line in caught.value.summary.splitlines() if line.startswith(str(own / file))]
    assert said in lines[0]
    assert len(lines) <= 3, "of a new value, what it lacks"
    assert caught.value.summary.count(f"{PACKAGED}/") == 0


def test_a_packaged_product_lies_in_the_package_and_an_own_one_in_the_project(own: Path) -> None:
    assert Path(load_spec(own).product.directory) == packaged_dir() / "playbooks"
    amend(own, "product.yml", "product: {directory: playbooks}\n")
    with pytest.raises(BadInput, match=rf"the directory {own.parent / 'playbooks'} does not exist"):
        load_spec(own)


def test_globs_of_the_package_mean_no_file_of_the_project(own: Path) -> None:
    paths = [path for axis in load_spec(own).axes for value in axis.values for path in value.paths]
    assert any(path.startswith("matrix/") for path in paths)
    assert not any(path.startswith("playbooks/") for path in paths)
    assert any(path.startswith(f"{packaged_dir()}/playbooks/") for path in paths)


def test_a_project_without_a_lock_has_the_packaged_cells(own: Path) -> None:
    assert load_lock(own).plan == load_lock(PACKAGED).plan
    assert load_lock(own).document.file == own / "plan.lock.yml", "what is wrong is put right in the project"


def test_the_default_itself_extends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.spec.layers.packaged_dir", lambda: tmp_path)
    (tmp_path / "matrix").mkdir()
    amend(tmp_path / "matrix", "tiers.yml", "")
    assert read(tmp_path / "matrix", "tiers.yml")[0].content == {"extends": "default"}


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
def own_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The matrix directory of a project with programs of its own."""
    (tmp_path / "matrix" / "products").mkdir(parents=True)
    program = tmp_path / "run.sh"
    program.write_text("#!/bin/sh\n: $cluster_kubeconfig_path\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv(PROJECT, str(tmp_path))
    return tmp_path / "matrix"


def declared(own_product: Path, text: str = DECLARED) -> None:
    (own_product / "products" / "operator.yml").write_text(text, encoding="utf-8")
    (own_product / "guest.yml.j2").write_text("{{ variables.x }}\n", encoding="utf-8")


def said(own_product: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_spec(own_product)
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


def test_a_project_with_a_product_of_its_own_does_not_get_the_packaged_operator(own_product: Path) -> None:
    (own_product / "product.yml").write_text(OURS, encoding="utf-8")
    spec = load_spec(own_product)
    assert spec.products == {}
    goal = goal_of(spec, "nightly", "embedded")
    assert goal.values["product"] == ("playbooks",)
    gone = [out for out in goal.left_out if out.axis == "product"]
    assert [(out.value, out.by) for out in gone] == [("operator", "product"), ("operator-vm", "product")]
    assert all("this project has one of its own, ours" in out.why for out in gone)
    assert runnable(spec, "operator", "embedded") == ()


def test_a_project_that_amends_the_product_keeps_the_operator_with_what_it_amends(own_product: Path) -> None:
    amended = "extends: default\nproduct: {vars: {cluster_dns_domain: our.own}}\n"
    (own_product / "product.yml").write_text(amended, encoding="utf-8")
    spec = load_spec(own_product)
    assert spec.products["operator"].vars["cluster_dns_domain"] == "our.own"
    assert Path(spec.products["operator"].directory) == PACKAGED / "products" / "operator"


def test_a_project_may_have_a_file_of_that_name_for_controllers_of_its_own(own_product: Path) -> None:
    (own_product / "product.yml").write_text(OURS, encoding="utf-8")
    declared(own_product)
    spec = load_spec(own_product)
    assert spec.products["operator"].name == "our controllers"
    values = {**spec.tiers["smoke"].pinned[0], "product": "operator"}
    assert make_cell(spec, values).phases[0].name == "deploy"
    assert values in goal_values(own_product)


def goal_values(own_product: Path) -> list[dict[str, str]]:
    return list(runnable(load_spec(own_product), "operator", "embedded"))


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
            set(load_spec(PACKAGED).scenarios)
            - {"upgrade-runtime", "upgrade-back", "defragment", "renew", "rotate-ca", "workers-behind"}
            - {"deliver", "deliver-guest", "rebuild", "clone"},
        ),  # from a runtime that 1.36 is not for; what the operator does by itself; what has a tier of its own
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
            "operator.yml:11: product.phases.deploy.until: it is of no use to a phase that applies nothing",
        ),
        (
            "{apply: guest.yml.j2}",
            "{apply: guest.yml.j2, commit: gone}",
            "operator.yml:11: product.phases.deploy.commit: the folder",
        ),
        (
            "{apply: guest.yml.j2}",
            "{deleted: [{apiVersion: v1, kind: Service, name: it}], commit: products}",
            "operator.yml:11: product.phases.deploy.commit: it is of no use to a phase that applies nothing",
        ),
        (
            "{apply: guest.yml.j2}",
            "{deleted: [{kind: Service, name: it}]}",
            "operator.yml:11: product.phases.deploy.deleted[0].apiVersion: missing",
        ),
        (
            "{apply: guest.yml.j2}",
            "{deleted: [{apiVersion: v1, kind: Service, name: it}], until: {kind: Copy, name: it, condition: Done}}",
            "",
        ),
        (
            "{apply: guest.yml.j2}",
            "{apply: guest.yml.j2, until: {name: it, condition: Done}}",
            "operator.yml:11: product.phases.deploy.until.kind: missing",
        ),
        ("{condition: Failed}", "{condition: F, record: {path: a}}", "record.path: 'a' is not a path such as"),
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
def test_a_mistake_in_such_a_file_is_said_at_its_line(own_product: Path, old: str, new: str, message: str) -> None:
    (own_product / "product.yml").write_text(OURS, encoding="utf-8")
    assert old in DECLARED
    declared(own_product, DECLARED.replace(old, new))
    if message:
        assert message in said(own_product)
    else:
        load_spec(own_product)


def test_a_declared_product_says_which_object_it_edits(own_product: Path) -> None:
    (own_product / "product.yml").write_text(OURS, encoding="utf-8")
    text = "product:\n  name: x\n  kind: declared\n  directory: matrix\n  phases: {deploy: {apply: guest.yml.j2}}\n"
    declared(own_product, text)
    assert "product.declared: missing; a product of kind declared says here which object it edits" in said(own_product)


def test_a_template_that_does_not_parse_is_said_with_its_line(own_product: Path) -> None:
    (own_product / "product.yml").write_text(OURS, encoding="utf-8")
    declared(own_product)
    (own_product / "guest.yml.j2").write_text("a: 1\nb: {{ x \n", encoding="utf-8")
    assert "guest.yml.j2:2: not a template" in said(own_product)


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
def test_a_value_whose_product_makes_no_sense_is_refused(own_product: Path, axis: str, message: str) -> None:
    (own_product / "axes.yml").write_text(f"extends: default\naxes:\n  - {axis}\n", encoding="utf-8")
    assert "axes.yml:3: axes" in said(own_product)
    assert message in said(own_product)


BASE = """\
axes:
  - name: os
    label: System
    values:
      - {id: deb, label: Debian, class: x, vars: {a: "1", b: "2"}, paths: [one, two]}
      - {id: ubu, label: Ubuntu}
  - name: proxy
    values:
      - {id: nft}
rules:
  - {id: differ, why: they differ, if: {os: {not: deb}}}
tiers:
  smoke: {label: one, suites: [nodes, network], budget: {cells: 1}}
source: {kind: build, recipe: deb}
"""


def merged(tmp_path: Path, changes: str) -> tuple[Document, list[Problem]]:
    """Return the base with changes."""
    (tmp_path / "base.yml").write_text(BASE, encoding="utf-8")
    (tmp_path / "top.yml").write_text(changes, encoding="utf-8")
    (base, none), (top, nor_here) = lines.read(tmp_path / "base.yml"), lines.read(tmp_path / "top.yml")
    assert none + nor_here == []
    return amended(base, top)


def content(**changes: Any) -> dict[str, Any]:
    """Return what the base holds, with other values at the top."""
    return {**yaml.safe_load(BASE), **changes}


@pytest.mark.parametrize(
    ("changes", "at", "value"),
    [
        ("tiers: {smoke: {label: two}}", ("tiers", "smoke", "label"), "two"),
        ("tiers: {smoke: {label: two}}", ("tiers", "smoke", "budget"), {"cells": 1}),
        ("tiers: {mine: {label: new}}", ("tiers", "mine"), {"label": "new"}),
        ("tiers: {mine: {label: new}}", ("tiers", "smoke", "label"), "one"),
        ("tiers: {smoke: {suites: [mine]}}", ("tiers", "smoke", "suites"), ["mine"]),
        ("tiers: {smoke: {budget: null}}", ("tiers", "smoke"), {"label": "one", "suites": ["nodes", "network"]}),
        ("axes: [{name: os, label: new}]", ("axes", 0, "values", 1, "label"), "Ubuntu"),
        ("axes: [{name: os, label: new}]", ("axes", 0, "label"), "new"),
        ("axes: [{name: os, label: new}]", ("axes", 1, "name"), "proxy"),
        ("axes: [{name: os, values: [{id: deb, vars: {b: x}}]}]", ("axes", 0, "values", 0, "vars", "a"), "1"),
        ("axes: [{name: os, values: [{id: deb, vars: {b: x}}]}]", ("axes", 0, "values", 0, "vars", "b"), "x"),
        ("axes: [{name: os, values: [{id: deb, class: y}]}]", ("axes", 0, "values", 0, "label"), "Debian"),
        ("axes: [{name: os, values: [{id: deb, paths: [x]}]}]", ("axes", 0, "values", 0, "paths"), ["x"]),
        ("axes: [{name: os, values: [{id: sus, label: S}]}]", ("axes", 0, "values", 2), {"id": "sus", "label": "S"}),
        ("axes: [{name: os, values: [{id: deb, remove: true}]}]", ("axes", 0, "values", 0, "id"), "ubu"),
        ("axes: [{name: os, remove: true}]", ("axes", 0, "name"), "proxy"),
        ("rules: [{why: they differ, if: {os: {class: x}}}]", ("rules", 0, "if", "os"), {"class": "x"}),
        ("rules: [{why: another}]", ("rules", 1, "why"), "another"),
        ("source: {kind: url, url: x}", ("source",), {"kind": "url", "url": "x"}),
        ("source: {recipe: ubu}", ("source",), {"kind": "build", "recipe": "ubu"}),
        ("source: none", ("source",), "none"),
    ],
)
def test_a_change_changes_what_it_names(tmp_path: Path, changes: str, at: tuple[str | int, ...], value: Any) -> None:
    document, problems = merged(tmp_path, f"extends: default\n{changes}\n")
    assert problems == []
    found = document.content
    for key in at:
        found = found[key]
    assert found == value
    assert "extends" not in document.content


def test_without_changes_it_is_the_base(tmp_path: Path) -> None:
    document, problems = merged(tmp_path, "extends: default\n")
    assert (document.content, problems) == (content(), [])


def test_every_value_keeps_its_file_and_line(tmp_path: Path) -> None:
    document, _ = merged(
        tmp_path,
        "extends: default\naxes:\n  - name: os\n    values:\n      - {id: deb, remove: true}\n      - id: ubu\n"
        "        vars: {c: x}\n      - id: new\n",
    )
    base, top = tmp_path / "base.yml", tmp_path / "top.yml"
    assert document.place_of(("axes", 0, "label")) == (base, 3)
    assert document.place_of(("axes", 0, "values", 0, "label")) == (base, 6)
    assert document.place_of(("axes", 0, "values", 0, "vars", "c")) == (top, 7)
    assert document.place_of(("axes", 0, "values", 1, "id")) == (top, 8)
    assert document.place_of(("axes", 1, "values", 0, "id")) == (base, 9)
    assert document.place_of(("axes", 0, "values", 1, "nothing of the kind")) == (top, 8)
    assert str(document.problem(("tiers", "smoke", "label"), "bad")) == f"{base}:13: tiers.smoke.label: bad"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("tiers: {smok: null}", "top.yml:2: tiers.smok: removes what the default does not have"),
        ("tiers: {smok: null}", "did you mean 'smoke'?"),
        ("axes: [{nmae: os, label: x}]", "top.yml:2: axes[0]: has no `name`"),
        ("axes: [os]", "top.yml:2: axes[0]: has no `name`"),
        ("axes: [{name: oss, remove: true}]", "top.yml:2: axes[0]: removes what the default does not have"),
        ("axes: [{name: os, remove: yes please}]", "top.yml:2: axes[0].remove: expected true, got 'yes please'"),
        ("axes: [{name: os, label: a}, {name: os, label: b}]", "axes[1]: changes name 'os' a second time"),
    ],
)
def test_a_change_that_cannot_be_is_named_by_its_line(tmp_path: Path, changes: str, said: str) -> None:
    _, problems = merged(tmp_path, f"extends: default\n{changes}\n")
    assert said in "\n".join(map(str, problems))


def removing(folder: Path, **values: tuple[str, ...]) -> Path:
    """Write a project's file of axes that removes values, and return its matrix directory."""
    axes = [{"name": axis, "values": [{"id": one, "remove": True} for one in ids]} for axis, ids in values.items()]
    (folder / "matrix").mkdir(exist_ok=True)
    (folder / "matrix" / "axes.yml").write_text(yaml.safe_dump({"extends": "default", "axes": axes}, sort_keys=False))
    return folder / "matrix"


PACKAGED_VALUES = [(axis.name, value.id) for axis in load_spec(PACKAGED).axes for value in axis.values]
# What is the project's to decide: another default, and values that need another one than those that are left.
DECISIONS = (".default: unknown value", "no cell can have ")
NO_MIRROR = ("source", "mirror")  # without which two of three infra profiles have no cells at all


@pytest.mark.parametrize(("axis", "gone"), PACKAGED_VALUES, ids=str)
def test_what_hangs_on_a_removed_value_goes_along(tmp_path: Path, axis: str, gone: str) -> None:
    """Nothing packaged names a removed value any more, whichever it is, and no tier is left without cells."""
    try:
        spec = load_spec(removing(tmp_path, **{axis: (gone,)}))
    except BadInput as error:
        told = error.summary.splitlines()[1:]
        decided = [line for line in told if any(words in line for words in DECISIONS)]
        assert told == decided or (axis, gone) == NO_MIRROR
        return
    assert gone not in {value.id for value in spec.axis(axis).values}
    assert all(cell[axis] != gone for tier in spec.tiers.values() for cell in tier.pinned)
    named = [repr(part) for rule in spec.constraints for part in (rule.if_.get(axis), rule.then.get(axis)) if part]
    assert all(repr(gone) not in text for text in named)


@pytest.mark.parametrize(
    ("given", "left", "never"),
    [
        ("a", "a", True),
        ("b", "b", False),
        (["a", "b"], ["b"], False),
        ({"not": "a"}, None, False),
        ({"not": ["a", "b"]}, {"not": ["b"]}, False),
        ({"class": ["old", "new"]}, {"class": ["new"]}, False),
        ({"class": "old"}, {"class": "old"}, True),
        ({"not_class": "old"}, None, False),
        (1, 1, False),
        ([], [], False),
    ],
)
def test_a_condition_without_removed_values(given: Any, left: Any, never: bool) -> None:
    gone = RemovedValues({"x": frozenset("a")}, {"x": frozenset({"old"})}, {"x": frozenset("bc")})
    assert _conditions({"x": given, "y": "a"}, gone) == ({**({} if left is None else {"x": left}), "y": "a"}, never)


def test_a_removed_value_in_the_projects_own_file_is_named_with_its_removal(tmp_path: Path) -> None:
    directory = removing(tmp_path, network=("routes",))
    cell = dict(next(iter(load_spec(packaged_dir() / "matrix").tiers["smoke"].pinned)), network="routes")
    mine = {"label": "x", "pinned": [cell], "suites": ["nodes"], "budget": {"cells": 1, "machines": 2, "minutes": 9}}
    (directory / "tiers.yml").write_text(yaml.safe_dump({"extends": "default", "tiers": {"mine": mine}}))
    with pytest.raises(BadInput) as refused:
        load_spec(directory)
    assert f"'routes' is removed from axis network in {directory / 'axes.yml'}:5" in refused.value.summary
    assert "remove it here, too" in refused.value.summary


@pytest.mark.parametrize(
    "entry", [{"id": "ipv6-playbooks"}, {"why": "the operator's machines have one address, of IPv4"}], ids=str
)
def test_a_constraint_is_removed_by_its_id_or_as_before_by_its_reason(tmp_path: Path, entry: dict[str, str]) -> None:
    (tmp_path / "matrix").mkdir()
    text = yaml.safe_dump({"extends": "default", "constraints": [{**entry, "remove": True}]})
    (tmp_path / "matrix" / "constraints.yml").write_text(text)
    whole, spec = load_spec(packaged_dir() / "matrix"), load_spec(tmp_path / "matrix")
    (gone,) = [rule for rule in whole.constraints if rule not in spec.constraints]
    assert entry.items() <= {"id": gone.id, "why": gone.why}.items()


def test_every_packaged_constraint_has_an_id() -> None:
    ids = [rule.id for rule in load_spec(packaged_dir() / "matrix").constraints]
    assert None not in ids
    assert len(set(ids)) == len(ids)


# Scalars that YAML 1.1 takes for another value, and the places where they may stand: new ones and replaced ones.
SCALARS = ("1.30", "1.10", "no", "yes", "on", "0644", "1:30", "010", "2026-01-02", ".inf", "1_000", "1.5")
PLACES = {
    "vars of the product": ("product.yml", "product:\n  vars:\n    x: "),
    "a list in them": ("product.yml", "product:\n  vars:\n    x:\n      - {y: [1]}\n      - "),
    "arguments": ("product.yml", "product:\n  args:\n    - --forks\n    - "),
    "arguments of a phase": ("product.yml", "product:\n  phases:\n    deploy:\n      args:\n        - "),
    "environment": ("product.yml", "product:\n  environment:\n    A: "),
    "vars of a value": ("axes.yml", "axes:\n- name: kubernetes\n  values:\n  - id: 1.37.2\n    vars:\n      x: "),
    "a slug that is replaced": ("axes.yml", "axes:\n- name: kubernetes\n  values:\n  - id: 1.37.2\n    slug: "),
    "the name of a value": ("axes.yml", "axes:\n- name: kubernetes\n  values:\n  - slug: k1\n    id: "),
    "a number": ("timeouts.yml", "timeouts:\n  golden_stall: "),
}


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("where", PLACES)
def test_a_scalar_is_judged_the_same_in_a_file_that_amends(own: Path, where: str, scalar: str) -> None:
    name, text = PLACES[where]
    line, said = text.count("\n") + 2, []
    for head in ("---", "extends: default"):
        (own / name).write_text(f"{head}\n{text}{scalar}\n", encoding="utf-8")
        document, problems = read(own, name)
        _, wrong = validate(document, FILES[name])
        place = (own / name, line)
        messages = {problem.message for problem in (*problems, *wrong) if (problem.file, problem.line) == place}
        said.append((messages, [text for at, text in document.written.items() if document.place_of(at) == place]))
    assert said[0] == said[1]
    assert said[0][1] == ([] if scalar == "1.5" else [scalar])


def test_a_scalar_keeps_its_text_when_entries_before_it_go() -> None:
    content = {"tiers": [{"a": 1}, {"b": 1.3}]}
    whole = Document(PACKAGED / "tiers.yml", content, {}, written={("tiers", 1, "b"): "1.30"})
    left = _change_packaged(whole, ("tiers", EACH), lambda _, tier: GONE if "a" in tier else tier)
    assert (left.content, left.written) == ({"tiers": [{"b": 1.3}]}, {("tiers", 0, "b"): "1.30"})


@pytest.mark.parametrize("scalar", ["1.30", "no", "0644"])
def test_what_a_product_shares_keeps_its_text(own: Path, scalar: str) -> None:
    """What product.yml says for all products is judged where it stands, and so for each of them."""
    value = "{id: other, slug: o, label: Other, product: other.yml}"
    amend(own, "axes.yml", f"axes:\n- {{name: product, values: [{value}]}}\n")
    amend(own, "product.yml", f"product:\n  vars:\n    x: {scalar}\n")
    (own / "other.yml").write_text("product: {name: o}\n", encoding="utf-8")
    documents = {name: read(own, name)[0] for name in ("axes.yml", "product.yml")}
    products, _ = read_products(own, documents)
    assert products["other"].written == {("product", "vars", "x"): scalar}
