"""The matrix asks for nothing that the catalogue lacks, and names the companions that a release comes with."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import yaml

from harness.artifacts import refs
from harness.artifacts.catalogue import load
from harness.paths import project_dir
from harness.spec import network_plugins

CATALOGUE = load()
AXES = yaml.safe_load((project_dir() / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]


def _variables(axis: str) -> list[dict[str, Any]]:
    return [value.get("vars", {}) for named in AXES if named["name"] == axis for value in named["values"]]


@pytest.mark.parametrize("variables", _variables("kubernetes"), ids=lambda given: given["cluster_kubernetes_version"])
def test_a_release_goes_with_its_own_etcd_coredns_and_pause(variables: dict[str, Any]) -> None:
    release = CATALOGUE.release(variables["cluster_kubernetes_version"])
    assert variables["cluster_etcd_version"] == release.etcd
    assert release.images["etcd"].startswith(f"{release.etcd}-")
    assert release.images["coredns"] == f"v{variables['cluster_coredns_version']}"
    assert release.images["pause"] == variables["cluster_pause_version"]


def test_every_combination_of_versions_is_in_the_catalogue() -> None:
    found = list(product(*(_variables(axis) for axis in ("kubernetes", "runtime", "network", "addons"))))
    assert len(found) > 2
    needed = set()
    for parts in found:
        variables = {name: value for part in parts for name, value in part.items()}
        for ref in refs.for_cell(CATALOGUE, variables):
            assert ref.version in CATALOGUE.versions(ref.name), str(ref)
            needed.add(ref)
    assert set(refs.add_ons(CATALOGUE)) <= needed


def test_every_image_of_a_network_plugin_is_in_the_catalogue() -> None:
    described = {plugin.image: plugin for plugin in network_plugins.load(project_dir()).values() if plugin.image}
    assert sorted(described) == sorted(CATALOGUE.network_plugins)
    assert {name: plugin.version for name, plugin in described.items()} == {n: refs.variable(n) for n in described}
