"""What the run itself sets cannot be set in the matrix, wherever somebody tries."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.spec.reserved import SET_BY_THE_RUN
from tests.unit.spec.conftest import edit, mistakes

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
