"""Which versions an operator knows, and the ways between them."""

from __future__ import annotations

import pytest
import yaml

from harness.operator.api.variables import variable
from harness.operator.decide.releases import (
    FILE,
    KnownReleases,
    as_text,
    component,
    load_releases,
    of_matrix,
)
from harness.paths import packaged_dir

TABLE = KnownReleases(
    kubernetes={"1.34.4": {"etcd": "3.6.5"}, "1.35.4": {"etcd": "3.6.6"}, "1.36.3": {"etcd": "3.6.8"}},
    minors={"1.35.4": "1.34.4", "1.36.3": "1.35.4"},
    defaults={"runc": "1.5.2"},
)


@pytest.mark.parametrize(
    ("running", "wanted", "hops"),
    [
        ("1.36.1", "1.36.3", ("1.36.3",)),
        ("1.35.4", "1.36.3", ("1.36.3",)),
        ("1.35.9", "1.36.3", ("1.36.3",)),  # the matrix starts from 1.35.4, and any patch of a minor will do
        ("1.34.4", "1.36.3", ("1.35.4", "1.36.3")),
        ("1.33.1", "1.36.3", ("1.34.4", "1.35.4", "1.36.3")),
        ("1.32.0", "1.36.3", ()),  # nothing of 1.33 is known
        ("1.36.3", "1.36.3", ()),
        ("1.36.3", "1.35.4", ()),
        ("1.9.1", "1.36.3", ()),
        ("1.9.1", "1.10.0", ("1.10.0",)),  # numbers, not letters
    ],
)
def test_an_upgrade_goes_one_minor_at_a_time(running: str, wanted: str, hops: tuple[str, ...]) -> None:
    assert TABLE.hops(running, wanted) == hops


def test_an_unknown_version_of_kubernetes_has_the_defaults_alone() -> None:
    assert TABLE.components("1.36.3") == {"runc": "1.5.2", "etcd": "3.6.8"}
    assert TABLE.components("1.99.0") == {"runc": "1.5.2"}


def test_the_table_that_ships_knows_every_component_of_every_release() -> None:
    table = load_releases()
    assert table.kubernetes
    for version in table.kubernetes:
        assert {"etcd", "coredns", "pause", "containerd", "runc", "cni-plugins"} <= table.components(version).keys()


def test_a_component_and_its_variable_lead_to_each_other() -> None:
    assert variable("cni-plugins") == "cluster_cni_plugins_version"
    assert component("cluster_cni_plugins_version") == "cni-plugins"


def test_the_file_is_what_the_matrix_gives() -> None:
    wanted = as_text(of_matrix())
    assert FILE.read_text(encoding="utf-8") == wanted, "run `vmatrix operator releases --write`"


def test_the_file_has_every_release_of_the_matrix_and_its_latest_components() -> None:
    axes = yaml.safe_load((packaged_dir() / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]
    values = {axis["name"]: axis["values"] for axis in axes}
    table = load_releases()
    assert list(table.kubernetes) == [value["id"] for value in values["kubernetes"]]
    for value in values["kubernetes"]:
        assert table.kubernetes[value["id"]]["etcd"] == value["vars"]["cluster_etcd_version"]
    assert table.defaults["containerd"] == values["runtime"][-1]["vars"]["cluster_containerd_version"]
