"""Another team's product under our matrix."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput
from harness.gitlab.overlay import assemble
from harness.paths import project_dir
from harness.spec import load_spec


def test_another_teams_product_runs_under_our_matrix(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "deploy").mkdir(parents=True)
    (theirs / "ci").mkdir()
    (theirs / "tests").mkdir()
    (theirs / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--nonsense'\n", encoding="utf-8")
    product = yaml.safe_load((project_dir() / "matrix/product.yml").read_text(encoding="utf-8"))
    product["product"]["name"] = "theirs"
    product["product"]["directory"] = "deploy"
    for phase in product["product"]["phases"].values():
        (theirs / "deploy" / phase["playbook"]).write_text("[]\n", encoding="utf-8")
    (theirs / "ci/product.yml").write_text(yaml.safe_dump(product), encoding="utf-8")
    for job in ("1", "2"):
        made = assemble(theirs, "ci/product.yml", tmp_path / "project", job=job)
    (made / "used").touch()
    assert assemble(theirs, "ci/product.yml", tmp_path / "project", job="2") == made
    assert (made / "used").exists(), "a run may be using it"
    spec = load_spec(made / "matrix")
    assert spec.product.name == "theirs"
    assert (made / "deploy/cluster.yml").is_file()
    assert not (made / "tests").exists(), "the checks are vmatrix's own"
    assert [path for path in made.rglob("*") if not path.exists()] == [], "a link leads nowhere"
    with pytest.raises(BadInput, match=r"the product file ci/other\.yml does not exist"):
        assemble(theirs, "ci/other.yml", tmp_path / "project", job="3")
