"""Variables in a product's own words: a cell has both names, whichever the matrix sets; mistakes are said at load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput
from harness.model import Cell
from harness.paths import packaged_dir
from harness.plan.cells import make_cell
from harness.plan.tiers import all_tier_cells
from harness.spec import Spec, load_spec
from harness.spec.lines import Finding
from harness.spec.variables import (
    BY_THE_RUN,
    GIVEN_BY_THE_RUN,
    SET_BY_THE_RUN,
    SOMETIMES,
    check_downgrades,
    in_both,
    merged,
    translated,
    variable_places,
)
from tests.unit.spec.conftest import edit, mistakes

WORDS = {"cluster_kubernetes_version": "kube_version", "cluster_pod_cidr": "kube_pods_subnet"}
OURS = '  vars: {cluster_kubernetes_version: "1"}\n'


def variables(matrix: Path, text: str) -> None:
    edit(matrix / "product.yml", OURS, f"  variables: {{{text}}}\n")


def test_a_variable_is_there_under_both_names_whichever_is_set() -> None:
    given = {"cluster_pod_cidr": "10.1.0.0/16", "kube_version": "v1.36.3", "other": 1}
    assert in_both(WORDS, given) == {
        **given,
        "kube_pods_subnet": "10.1.0.0/16",
        "cluster_kubernetes_version": "1.36.3",
    }
    both = {"cluster_pod_cidr": "10.1.0.0/16", "kube_pods_subnet": "10.2.0.0/16"}
    assert in_both(WORDS, both) == both


def test_what_a_run_changes_reaches_the_product_under_its_own_name() -> None:
    words = {**WORDS, "cluster_image_registry": "registry_host"}
    before = in_both(words, {"cluster_pod_cidr": "10.1.0.0/16", "kube_version": "v1.36.3"})
    after = translated(words, before, {**before, "cluster_pod_cidr": "10.9.0.0/16", "cluster_image_registry": "r:5000"})
    assert (after["kube_pods_subnet"], after["registry_host"], after["kube_version"]) == (
        "10.9.0.0/16",
        "r:5000",
        "v1.36.3",
    )


def test_a_matrix_in_the_products_words_gives_cells_that_vmatrix_knows(matrix: Path) -> None:
    variables(matrix, "cluster_kubernetes_version: product_version")
    assert mistakes(matrix) == []
    spec = load_spec(matrix)
    cell = make_cell(spec, dict(spec.tiers["smoke"].pinned[0]))
    assert cell.vars["cluster_kubernetes_version"] == cell.vars["product_version"]
    assert {phase.vars["cluster_kubernetes_version"] for phase in cell.phases} == {cell.vars["product_version"]}


def test_a_product_has_words_for_what_only_checks_read(matrix: Path) -> None:
    variables(matrix, "cluster_kubernetes_version: product_version, cluster_enforces_network_policies: policed")
    assert mistakes(matrix) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "cluster_kubernets_version: product_version",
            "product.variables.cluster_kubernets_version: unknown variable of vmatrix 'cluster_kubernets_version'; did",
        ),
        (
            "cluster_kubernetes_version: product_version, cluster_pod_cidr: product_version",
            "product.variables.cluster_pod_cidr: 'product_version' already stands for cluster_kubernetes_version",
        ),
        (
            "cluster_kubernetes_version: product_version, cluster_pod_cidr: cluster_service_cidr",
            "product.variables.cluster_pod_cidr: 'cluster_service_cidr' is vmatrix's own variable",
        ),
    ],
)
def test_a_wrong_word_is_a_mistake(matrix: Path, text: str, said: str) -> None:
    variables(matrix, text)
    assert any(said in line for line in mistakes(matrix)), mistakes(matrix)


def test_a_word_that_no_cell_sets_leaves_what_vmatrix_needs_missing(matrix: Path) -> None:
    variables(matrix, "cluster_kubernetes_version: kube_version")
    (said,) = mistakes(matrix)
    assert "no cell has the variable cluster_kubernetes_version, which vmatrix needs" in said
    assert "if the product has another word for it, name that under `variables`" in said


def requires(matrix: Path, *names: str) -> None:
    edit(matrix / "product.yml", "  phases:\n", f"  requires: [{', '.join(names)}]\n  phases:\n")


def test_a_variable_that_no_cell_has_is_named_where_it_is_required(matrix: Path) -> None:
    requires(matrix, "product_version", "product_region")
    (said,) = mistakes(matrix)
    assert said == (
        "product.yml:4: product.requires[1]: no cell has the variable product_region, which this line requires; "
        "set it under `vars` here, or in the `vars` of every value of an axis"
    )


def test_a_variable_of_the_product_of_all_values_or_of_the_run_is_there(matrix: Path) -> None:
    requires(matrix, "product_version", "cluster_kubernetes_version", "cluster_hosts")
    assert mistakes(matrix) == []


def test_each_value_that_lacks_what_its_siblings_have_is_named_at_its_line(matrix: Path) -> None:
    requires(matrix, "product_version")
    edit(matrix / "axes.yml", 'class: "1", vars: {product_version: "1"}}', 'class: "1"}')
    (said,) = mistakes(matrix)
    assert said.startswith("axes.yml:5: axes[0].values[0].vars: v1 does not set product_version, which product.yml:4 ")
    assert said.endswith("requires of every cell; add it to the value's `vars`, or to `vars` in product.yml")


def test_a_variable_may_come_from_every_scenario_from_its_first_phase_on(matrix: Path) -> None:
    requires(matrix, "region")
    scenarios = matrix / "scenarios.yml"
    edit(scenarios, "then: it runs}", "then: it runs, vars: {region: a}}")
    (said,) = mistakes(matrix)
    assert "axes[3].values[1].vars: upgrade does not set region" in said


def test_what_vmatrix_itself_needs_is_required_without_a_word(matrix: Path) -> None:
    edit(matrix / "product.yml", '  vars: {cluster_kubernetes_version: "1"}\n', "")
    (said,) = mistakes(matrix)
    assert said.startswith(
        "product.yml:1: product: no cell has the variable cluster_kubernetes_version, which vmatrix needs; "
    )


PLACES = {
    "product.yml": ("{cluster_kubernetes_version: ", "{%s: x, cluster_kubernetes_version: ", "product.vars"),
    "axes.yml": ('{product_version: "1"}', '{product_version: "1", %s: x}', "axes[0].values[0].vars"),
    "scenarios.yml": ("then: it runs}", "then: it runs, vars: {%s: x}}", "scenarios.fresh.phases[0].vars"),
}


@pytest.mark.parametrize("name", SET_BY_THE_RUN)
@pytest.mark.parametrize("file", PLACES)
def test_a_variable_that_the_run_sets_is_refused_where_it_stands(matrix: Path, file: str, name: str) -> None:
    old, new, path = PLACES[file]
    edit(matrix / file, old, new % name)
    (said,) = mistakes(matrix)
    assert said.startswith(f"{file}:")
    assert f" {path}.{name}: vmatrix sets {name} itself: " in said
    assert said.endswith("; remove the variable")


def test_a_variable_that_the_run_sets_is_refused_in_a_phase_of_the_product(matrix: Path) -> None:
    file = matrix / "product.yml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    content["product"]["phases"]["deploy"]["vars"] = {"cluster_mirror_url": "x"}
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    (said,) = mistakes(matrix)
    assert " product.phases.deploy.vars.cluster_mirror_url: vmatrix sets cluster_mirror_url itself: " in said


def test_fragments_of_both_reach_the_playbooks() -> None:
    phase = {"cluster_kubelet_config": {"maxPods": 120, "evictionHard": {"memory.available": "5%"}}, "a": 1, "b": [1]}
    infra = {"cluster_kubelet_config": {"failSwapOn": False, "evictionHard": {"nodefs.available": "1%"}}, "b": [2]}
    assert merged(phase, infra) == {
        "cluster_kubelet_config": {
            "maxPods": 120,
            "evictionHard": {"memory.available": "5%", "nodefs.available": "1%"},
            "failSwapOn": False,
        },
        "a": 1,
        "b": [2],
    }


def found(before: dict[str, str], after: dict[str, str]) -> list[Finding]:
    """Return what is found of a value of which another one with these variables is the earlier one."""
    values = [{"id": "old", "vars": before}, {"id": "new", "before": {"major": "old"}, "vars": after}]
    return list(check_downgrades([(("axes", 0, "values", number), value) for number, value in enumerate(values)]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1.7.35", "2.4.2"),
        ("2.4.2", "2.4.2"),
        ("2.9.0", "2.10.0"),
        ("{{ newest }}", "2.4.2"),
        ("2.4.2", "latest"),
    ],
)
def test_a_later_or_an_equal_version_and_one_that_is_no_number_pass(before: str, after: str) -> None:
    assert found({"cluster_containerd_version": before}, {"cluster_containerd_version": after}) == []


@pytest.mark.parametrize("program", ["kubernetes", "etcd", "containerd", "crio"])
def test_an_earlier_value_of_a_later_version_is_found(program: str) -> None:
    ((at, message),) = found({f"cluster_{program}_version": "2.10.0"}, {f"cluster_{program}_version": "2.9.3"})
    assert at == ("axes", 0, "values", 1, "before", "major")
    assert f"old has cluster_{program}_version 2.10.0, and this value 2.9.3, which is older" in message


def test_what_comes_with_a_release_may_go_back() -> None:
    assert found({"cluster_coredns_version": "1.14.0"}, {"cluster_coredns_version": "1.13.0"}) == []


def test_another_runtime_is_found_where_both_are_said() -> None:
    ((_, message),) = found({"cluster_container_runtime": "containerd"}, {"cluster_container_runtime": "crio"})
    assert "no upgrade replaces a runtime by another one" in message
    assert found({}, {"cluster_container_runtime": "crio"}) == []


def test_a_project_that_asks_for_it_is_refused_with_file_line_field_and_remedy(tmp_path: Path) -> None:
    own = tmp_path / "matrix"
    own.mkdir()
    (own / "axes.yml").write_text(
        "extends: default\n"
        "axes:\n"
        "  - name: runtime\n"
        "    values:\n"
        "      - {id: containerd-2.4, before: {major: null}}\n"
        "      - id: containerd-1.7\n"
        "        before:\n"
        "          major: containerd-2.4\n",
        encoding="utf-8",
    )
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    said = caught.value.summary
    assert f"{own}/axes.yml:8: axes[2].values[1].before.major: containerd-2.4 has cluster_containerd_version" in said
    assert "name an earlier value, or remove it" in said


def one_for_each_value() -> Iterator[tuple[Spec, Cell]]:
    """Yield few cells of the packaged matrix that have every value of every axis together."""
    spec = load_spec(packaged_dir() / "matrix")
    missing = {(axis.name, value.id) for axis in spec.axes for value in axis.values}
    for infra in spec.infras:
        for cells in all_tier_cells(spec, infra).values():
            for cell in cells:
                if missing & set(cell.values.items()):
                    missing -= set(cell.values.items())
                    yield spec, cell
    assert missing == set()


def test_every_variable_of_a_cell_has_a_place() -> None:
    for spec, cell in one_for_each_value():
        beside = (spec.axis(axis).value(value).product for axis, value in cell.values.items())
        places = variable_places(packaged_dir() / "matrix", cell.values, next(filter(None, beside), ""))
        others = in_both(spec.product_of(cell.values).variables, dict.fromkeys(places))
        assert cell.vars.keys() <= others.keys(), cell.id
        assert all(place.value == cell.vars[name] for name, place in places.items()), cell.id


def test_whatever_a_run_gives_is_explained() -> None:
    assert {*BY_THE_RUN, *SOMETIMES} <= GIVEN_BY_THE_RUN.keys()
