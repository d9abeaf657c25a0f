"""Variables that every cell must have are looked for before any cell is: in the product, on axes, in scenarios."""

from __future__ import annotations

from pathlib import Path

from tests.unit.spec.conftest import edit, mistakes


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
