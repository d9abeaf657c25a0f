"""Where programs lie: as upstream has them, or as the product says; and no two of them in one place."""

from __future__ import annotations

from typing import Any

import pytest

from harness.artifacts.catalogue import Catalogue, architecture, load
from harness.artifacts.product.layout import LaidOut, layout, refs_of
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from tests.unit.artifacts.product.conftest import moment, product

ARCH = architecture()


def laid(catalogue: Catalogue, *serve: Any, version: str = "1.36.3") -> dict[str, LaidOut]:
    return {each.path: each for each in layout(catalogue, product(serve=serve).artifacts, moment(version))}


def test_a_name_lies_where_upstream_has_it_in_the_version_of_the_phase(catalogue: Catalogue) -> None:
    assert list(laid(catalogue, "kubelet", version="1.36.1")) == ["dl.example/v1.36.1/kubelet"]
    both = laid(catalogue, "kubelet", "kubelet@1.36.1")
    assert list(both) == ["dl.example/v1.36.1/kubelet", "dl.example/v1.36.3/kubelet"]
    last = both["dl.example/v1.36.3/kubelet"]
    assert last.files == {"": (Ref("kubelet", "1.36.3"), "kubelet")}
    assert (last.checksums, last.bare) == ("dl.example/v1.36.3/kubelet.sha256", True)


def test_programs_of_one_archive_upstream_share_it(catalogue: Catalogue) -> None:
    (found,) = laid(catalogue, "etcd", "etcdutl").values()
    assert found.path == f"hub.example/etcd-io/v3.6.8/etcd-v3.6.8-linux-{ARCH}.tar.gz"
    assert sorted(found.files) == ["etcd-v3.6.8/etcd", "etcd-v3.6.8/etcdutl"]
    assert found.checksums == "hub.example/etcd-io/v3.6.8/SHA256SUMS"
    assert refs_of([found]) == (Ref("etcd", "3.6.8"), Ref("etcdutl", "3.6.8"))


def test_a_product_lays_a_program_out_as_it_likes(catalogue: Catalogue) -> None:
    entry = {"artifact": "etcd", "as": "own/{name}-{minor}-{arch}.tgz", "inside": "{name}/bin", "checksums": "own/SUMS"}
    (found,) = laid(catalogue, entry).values()
    assert (found.path, found.checksums) == (f"own/etcd-3.6-{ARCH}.tgz", "own/SUMS")
    assert sorted(found.files) == ["etcd/bin/etcd", "etcd/bin/etcdctl"]
    (plain,) = laid(catalogue, {"artifact": "flannel", "as": "own/flanneld"}).values()
    assert (plain.files, plain.checksums) == ({"": (Ref("flannel", "0.28.4"), "flanneld")}, "own/flanneld.sha256")


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (["flannel"], "flannel has no address upstream"),
        ([{"artifact": "etcd", "as": "own/etcd"}], "etcd has the files etcd, etcdctl, and own/etcd is no archive"),
        (
            [{"artifact": "kubelet", "as": "own/x"}, {"artifact": "kubectl", "as": "own/{name}"}, "kubectl"],
            "",
        ),
        (
            [{"artifact": "kubelet", "as": "own/{minor}"}, {"artifact": "kubectl", "as": "own/1.36"}],
            r"kubelet@1\.36\.3 and kubectl@1\.36\.3 would both be own/1\.36",
        ),
    ],
)
def test_what_cannot_be_laid_out_is_said(catalogue: Catalogue, serve: list[Any], said: str) -> None:
    if not said:
        assert len(laid(catalogue, *serve)) == 3
        return
    with pytest.raises(BadInput, match=said):
        laid(catalogue, *serve)


def test_a_path_without_the_version_serves_that_of_the_phase(catalogue: Catalogue) -> None:
    for version in ("1.36.1", "1.36.3"):
        (found,) = laid(catalogue, {"artifact": "kubelet", "as": "own/kubelet"}, version=version).values()
        assert found.files == {"": (Ref("kubelet", version), "kubelet")}
    with pytest.raises(BadInput, match=r"kubelet@1\.36\.1 and kubelet@1\.36\.3 would both be own/k"):
        laid(catalogue, {"artifact": "kubelet@1.36.1", "as": "own/k"}, {"artifact": "kubelet", "as": "own/k"})


def test_what_kubespray_downloads_lies_where_it_looks() -> None:
    """Paths of its roles/kubespray_defaults/defaults/main/download.yml, the hosts being its *_url variables."""
    names = ("kubeadm", "etcd", "etcdutl", "containerd", "runc", "cni-plugins", "crictl", "nerdctl")
    hub = "github.com"
    assert list(laid(load(), *names)) == [
        f"dl.k8s.io/release/v1.36.3/bin/linux/{ARCH}/kubeadm",
        f"{hub}/containerd/containerd/releases/download/v2.4.2/containerd-static-2.4.2-linux-{ARCH}.tar.gz",
        f"{hub}/containerd/nerdctl/releases/download/v2.0.4/nerdctl-2.0.4-linux-{ARCH}.tar.gz",
        f"{hub}/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-{ARCH}-v1.9.1.tgz",
        f"{hub}/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-linux-{ARCH}.tar.gz",
        f"{hub}/kubernetes-sigs/cri-tools/releases/download/v1.36.0/crictl-v1.36.0-linux-{ARCH}.tar.gz",
        f"{hub}/opencontainers/runc/releases/download/v1.5.2/runc.{ARCH}",
    ]
