"""Which artifacts a Kubernetes version or a cell needs, and that the matrix and the catalogue agree on them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import yaml

from harness.artifacts import refs
from harness.artifacts.catalogue import Catalogue, load
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from harness.paths import project_dir
from harness.spec import load_spec
from harness.spec.models import ProductArtifacts
from tests.unit.artifacts.product.conftest import moment

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
    plugins = load_spec(project_dir() / "matrix").network_plugins.values()
    described = {plugin.image: plugin for plugin in plugins if plugin.image}
    assert sorted(described) == sorted(CATALOGUE.network_plugins)
    assert {name: plugin.version for name, plugin in described.items()} == {
        n: refs.version_variable(n) for n in described
    }


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_all_that_a_release_needs_is_declared(version: str) -> None:
    needed = (*refs.host(CATALOGUE, version), *refs.for_kubernetes(CATALOGUE, version))
    for ref in needed:
        assert ref.version in CATALOGUE.versions(ref.name)
    assert Ref("image/kube-proxy", f"v{version}") in needed
    assert Ref("kubelet", version) in needed


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_a_release_comes_with_its_own_etcd_and_with_no_other(version: str) -> None:
    known = CATALOGUE.release(version).etcd
    given = refs.for_kubernetes(CATALOGUE, version)
    assert {str(ref) for ref in given if ref.name.startswith("etcd")} == {f"etcd@{known}", f"etcdutl@{known}"}


def test_a_cells_variables_choose_versions() -> None:
    variables = {"cluster_kubernetes_version": "1.36.3", "cluster_containerd_version": "1.7.35"}
    needed = refs.for_cell(CATALOGUE, variables, infra_version="1.36.3")
    assert Ref("containerd", "1.7.35") in needed
    assert Ref("containerd", "2.4.2") not in needed
    assert Ref("kube-apiserver", "1.36.3") in needed
    assert Ref("kube-apiserver", "1.36.3") not in refs.for_cell(CATALOGUE, variables)
    assert len(needed) == len(set(needed))


def test_a_cell_gets_the_runtime_that_it_asks_for_and_no_other() -> None:
    variables = {"cluster_kubernetes_version": "1.34.4", "cluster_container_runtime": "crio"}
    names = {ref.name for ref in refs.for_cell(CATALOGUE, variables)}
    assert {"crio", "crictl", "runc", "cni-plugins"} <= names
    assert "containerd" not in names


def test_add_ons_are_only_in_cells_that_ask_for_them() -> None:
    plain = {"cluster_kubernetes_version": "1.36.3"}
    versions = {
        "metrics-server": "0.9.0",
        "local-path-provisioner": "0.0.30",
        "metallb": "0.16.1",
        "kube-router": "2.6.3",
        "traefik": "3.6.12",
    }
    asked = {**plain, **{refs.version_variable(name): version for name, version in versions.items()}}
    added = set(refs.for_cell(CATALOGUE, asked)) - set(refs.for_cell(CATALOGUE, plain))
    assert added == {Ref(f"image/{name}", f"v{version}") for name, version in versions.items()}
    assert added == set(refs.add_ons(CATALOGUE))
    empty = {**plain, "cluster_metrics_server_version": ""}
    assert refs.for_cell(CATALOGUE, empty) == refs.for_cell(CATALOGUE, plain)


def test_a_network_of_plain_routes_needs_no_image_of_a_plugin() -> None:
    plain = {"cluster_kubernetes_version": "1.36.3"}
    flannel, routes = ({**plain, "cluster_network_plugin": plugin} for plugin in ("flannel", "routes"))
    without = set(refs.for_cell(CATALOGUE, flannel)) - set(refs.for_cell(CATALOGUE, routes))
    assert without == {Ref("image/flannel", "v0.28.4")}
    assert refs.for_cell(CATALOGUE, plain) == refs.for_cell(CATALOGUE, flannel)


def test_references_are_parsed() -> None:
    assert refs.parse(CATALOGUE, ["runc", "etcd@3.6.8"]) == (Ref("runc", "1.5.2"), Ref("etcd", "3.6.8"))
    with pytest.raises(BadInput):
        refs.parse(CATALOGUE, ["nothing"])


@pytest.mark.parametrize("word", ["runc@", "etcd@"])
def test_a_version_that_is_left_out_is_not_every_version(word: str) -> None:
    with pytest.raises(BadInput, match="names no version"):
        refs.parse(CATALOGUE, [word])


NOTHING = ProductArtifacts()
PROBES = ("e2e-test-images/agnhost:2.63.0", "e2e-test-images/agnhost:2.55", "pause:3.10.2")


def asking(*serve: str, images: tuple[str, ...] = ()) -> ProductArtifacts:
    return ProductArtifacts.model_validate({"serve": serve, "images": images})


def test_a_product_that_asks_for_nothing_gets_what_the_checks_need(catalogue: Catalogue) -> None:
    found = refs.programs(catalogue, NOTHING, moment())
    assert {str(ref) for ref in found} == {"e2e.test@1.36.3", "ginkgo@1.36.3", "kubectl@1.36.3"}
    images = refs.product_images(catalogue, NOTHING, moment(), PROBES)
    assert {str(ref) for ref in images} == {"image/e2e-test-images/agnhost@2.63.0", "image/pause@3.10.2"}


def test_a_product_that_does_not_say_gets_everything_of_the_version() -> None:
    catalogue = load()
    names = {ref.name for ref in refs.programs(catalogue, None, moment())}
    assert {"kubeadm", "kubelet", "containerd", "etcd", "e2e.test"} <= names
    assert "crictl" not in names
    assert {"image/kube-apiserver", "image/flannel"} <= {
        ref.name for ref in refs.product_images(catalogue, None, moment())
    }


def test_versions_are_the_cells_or_those_that_belong_to_its_kubernetes(catalogue: Catalogue) -> None:
    served = asking("kubelet", "etcd", "etcdutl", "flannel")
    found = refs.programs(catalogue, served, moment("1.35.4"))
    assert {Ref("kubelet", "1.35.4"), Ref("etcd", "3.6.6"), Ref("etcdutl", "3.6.6"), Ref("flannel", "0.28.4")} <= {
        *found
    }
    chosen = refs.programs(catalogue, served, moment("1.35.4", cluster_etcd_version="3.6.8"))
    assert {Ref("etcd", "3.6.8"), Ref("etcdutl", "3.6.8")} <= {*chosen}
    assert Ref("etcd", "3.6.8") in refs.programs(catalogue, asking("etcd@3.6.8"), moment("1.35.4"))


def test_tags_are_those_of_the_cell(catalogue: Catalogue) -> None:
    found = refs.product_images(catalogue, asking(images=("kube-proxy", "pause", "coredns")), moment("1.35.4"))
    assert [str(ref) for ref in found] == ["image/kube-proxy@v1.35.4", "image/pause@3.10.1", "image/coredns@v1.14.2"]


def test_a_version_that_no_catalogue_knows_is_no_mistake_where_it_is_not_asked_for(catalogue: Catalogue) -> None:
    found = refs.programs(catalogue, asking("etcd"), moment("1.36.99"))
    assert {str(ref) for ref in found} >= {"e2e.test@1.36.3", "etcd@3.6.8"}
    assert [ref.name for ref in refs.programs(catalogue, asking("etcd"), moment("1.99.0"))] == ["etcd"]
    assert refs.product_images(catalogue, NOTHING, moment("1.99.0"), PROBES)
    with pytest.raises(BadInput, match=r"kubelet has no version 1\.99\.0"):
        refs.programs(catalogue, asking("kubelet"), moment("1.99.0"))
    with pytest.raises(BadInput, match=r"Kubernetes 1\.99\.0 is not in the catalogue") as refused:
        refs.programs(catalogue, None, moment("1.99.0"))
    assert "`artifacts: {}`" in refused.value.hint


def test_what_there_is_not_is_said(catalogue: Catalogue) -> None:
    with pytest.raises(BadInput, match="no artifact `kublet`"):
        refs.programs(catalogue, asking("kublet"), moment())
    with pytest.raises(BadInput, match="no artifact `image/proxy`"):
        refs.product_images(catalogue, asking(images=("proxy",)), moment())


def test_upstreams_tests_are_those_of_the_nearest_release_of_the_minor(catalogue: Catalogue) -> None:
    known = {version: refs.tested(catalogue, version) for version in ("1.36.1", "1.36.9", "1.99.0")}
    assert known == {"1.36.1": "1.36.1", "1.36.9": "1.36.3", "1.99.0": ""}
