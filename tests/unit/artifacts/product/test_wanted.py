"""Which versions of what a run obtains: what the product asks for, and what the checks need."""

from __future__ import annotations

import pytest

from harness.artifacts.catalogue import Catalogue, load
from harness.artifacts.product import wanted
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from harness.spec.models import ProductArtifacts
from tests.unit.artifacts.product.conftest import moment

NOTHING = ProductArtifacts()
PROBES = ("e2e-test-images/agnhost:2.63.0", "e2e-test-images/agnhost:2.55", "pause:3.10.2")


def asking(*serve: str, images: tuple[str, ...] = ()) -> ProductArtifacts:
    return ProductArtifacts.model_validate({"serve": serve, "images": images})


def test_a_product_that_asks_for_nothing_gets_what_the_checks_need(catalogue: Catalogue) -> None:
    found = wanted.programs(catalogue, NOTHING, moment())
    assert {str(ref) for ref in found} == {"e2e.test@1.36.3", "ginkgo@1.36.3", "kubectl@1.36.3"}
    images = wanted.images(catalogue, NOTHING, moment(), PROBES)
    assert {str(ref) for ref in images} == {"image/e2e-test-images/agnhost@2.63.0", "image/pause@3.10.2"}


def test_a_product_that_does_not_say_gets_everything_of_the_version() -> None:
    catalogue = load()
    names = {ref.name for ref in wanted.programs(catalogue, None, moment())}
    assert {"kubeadm", "kubelet", "containerd", "etcd", "e2e.test"} <= names
    assert "crictl" not in names
    assert {"image/kube-apiserver", "image/flannel"} <= {ref.name for ref in wanted.images(catalogue, None, moment())}


def test_versions_are_the_cells_or_those_that_belong_to_its_kubernetes(catalogue: Catalogue) -> None:
    served = asking("kubelet", "etcd", "etcdutl", "flannel")
    found = wanted.programs(catalogue, served, moment("1.35.4"))
    assert {Ref("kubelet", "1.35.4"), Ref("etcd", "3.6.6"), Ref("etcdutl", "3.6.6"), Ref("flannel", "0.28.4")} <= {
        *found
    }
    chosen = wanted.programs(catalogue, served, moment("1.35.4", cluster_etcd_version="3.6.8"))
    assert {Ref("etcd", "3.6.8"), Ref("etcdutl", "3.6.8")} <= {*chosen}
    assert Ref("etcd", "3.6.8") in wanted.programs(catalogue, asking("etcd@3.6.8"), moment("1.35.4"))


def test_tags_are_those_of_the_cell(catalogue: Catalogue) -> None:
    found = wanted.images(catalogue, asking(images=("kube-proxy", "pause", "coredns")), moment("1.35.4"))
    assert [str(ref) for ref in found] == ["image/kube-proxy@v1.35.4", "image/pause@3.10.1", "image/coredns@v1.14.2"]


def test_a_version_that_no_catalogue_knows_is_no_mistake_where_it_is_not_asked_for(catalogue: Catalogue) -> None:
    found = wanted.programs(catalogue, asking("etcd"), moment("1.36.99"))
    assert {str(ref) for ref in found} >= {"e2e.test@1.36.3", "etcd@3.6.8"}
    assert [ref.name for ref in wanted.programs(catalogue, asking("etcd"), moment("1.99.0"))] == ["etcd"]
    assert wanted.images(catalogue, NOTHING, moment("1.99.0"), PROBES)
    with pytest.raises(BadInput, match=r"kubelet has no version 1\.99\.0"):
        wanted.programs(catalogue, asking("kubelet"), moment("1.99.0"))
    with pytest.raises(BadInput, match=r"Kubernetes 1\.99\.0 is not in the catalogue") as refused:
        wanted.programs(catalogue, None, moment("1.99.0"))
    assert "`artifacts: {}`" in refused.value.hint


def test_what_there_is_not_is_said(catalogue: Catalogue) -> None:
    with pytest.raises(BadInput, match="no artifact `kublet`"):
        wanted.programs(catalogue, asking("kublet"), moment())
    with pytest.raises(BadInput, match="no artifact `image/proxy`"):
        wanted.images(catalogue, asking(images=("proxy",)), moment())


def test_upstreams_tests_are_those_of_the_nearest_release_of_the_minor(catalogue: Catalogue) -> None:
    known = {version: wanted.tested(catalogue, version) for version in ("1.36.1", "1.36.9", "1.99.0")}
    assert known == {"1.36.1": "1.36.1", "1.36.9": "1.36.3", "1.99.0": ""}
