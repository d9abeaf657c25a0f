"""Variables in a product's own words: a cell has both names, whichever the matrix sets; mistakes are said at load."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan.cells import make_cell
from harness.spec import load_spec
from harness.spec.own_words import in_both, translated
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
