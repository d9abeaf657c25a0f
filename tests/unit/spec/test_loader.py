"""The shipped matrix loads; whatever a file holds, loading ends in a Spec or in mistakes, never in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import project_dir
from harness.plan.changed import matches
from harness.spec import load_spec


def test_the_shipped_matrix_loads() -> None:
    spec = load_spec(project_dir() / "matrix")
    assert {"topology", "scenario", "os"} <= {axis.name for axis in spec.axes}
    assert "smoke" in spec.tiers


def test_every_glob_of_the_shipped_matrix_finds_a_file() -> None:
    project = project_dir()
    spec = load_spec(project / "matrix")
    files = [
        str(p.relative_to(project))
        for top in ("playbooks", "vm-templates", "matrix", "harness", "deploy")
        for p in (project / top).rglob("*")
    ]
    globs = {glob for axis in spec.axes for value in axis.values for glob in value.paths}
    globs |= {glob for phase in spec.product.phases.values() for glob in phase.paths}
    assert globs
    assert [glob for glob in sorted(globs) if not any(matches(glob, file) for file in files)] == []


def test_a_project_without_a_matrix_has_the_packaged_one(tmp_path: Path) -> None:
    packaged = load_spec(project_dir() / "matrix")
    spec = load_spec(tmp_path / "matrix")
    assert spec.tiers == packaged.tiers
    assert Path(spec.product.directory) == project_dir() / "playbooks"
    assert spec.product.phases.keys() == packaged.product.phases.keys()


def test_a_mistake_that_a_packaged_file_makes_says_whose_file_it_is(matrix: Path) -> None:
    (matrix / "tiers.yml").unlink()
    with pytest.raises(BadInput, match=r"tiers\.yml:") as caught:
        load_spec(matrix)
    assert str(project_dir() / "matrix" / "tiers.yml") in caught.value.summary
    assert f"replace or amend it with a file of the same name in {matrix}" in caught.value.hint
