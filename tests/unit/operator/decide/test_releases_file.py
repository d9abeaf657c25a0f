"""The table of releases that ships is the matrix's."""

from __future__ import annotations

import yaml

from harness.operator.decide import releases
from harness.operator.decide.releases_file import as_text, made
from harness.paths import packaged_dir


def test_the_file_is_what_the_matrix_gives() -> None:
    wanted = as_text(made())
    assert releases.FILE.read_text(encoding="utf-8") == wanted, "run `vmatrix operator releases --write`"


def test_the_file_has_every_release_of_the_matrix_and_its_latest_components() -> None:
    axes = yaml.safe_load((packaged_dir() / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]
    values = {axis["name"]: axis["values"] for axis in axes}
    table = releases.load_releases()
    assert list(table.kubernetes) == [value["id"] for value in values["kubernetes"]]
    for value in values["kubernetes"]:
        assert table.kubernetes[value["id"]]["etcd"] == value["vars"]["cluster_etcd_version"]
    assert table.defaults["containerd"] == values["runtime"][-1]["vars"]["cluster_containerd_version"]
