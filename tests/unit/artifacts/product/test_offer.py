"""What guests find because a product asks for it, and its checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.catalogue import Catalogue
from harness.artifacts.product.offer import Offer, checksums
from harness.artifacts.recipe import Ref, Source
from harness.artifacts.store import Store
from harness.errors import BadInput
from tests.image_archives import docker_files, write_tar
from tests.unit.artifacts.conftest import Site, archive
from tests.unit.artifacts.product.conftest import get, moment, product

BOTH = [moment("1.36.1"), moment("1.36.3")]


def offer(catalogue: Catalogue, project: Path, **artifacts: Any) -> Offer:
    return Offer.of(catalogue, product(**artifacts), project, BOTH)


def test_a_phase_is_told_where_its_files_are_and_their_checksums(
    store: Store, cache: Path, url: str, tmp_path: Path
) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "chart.tgz").write_bytes(b"chart")
    found = offer(store.catalogue, tmp_path, folder="mirror", serve=["kubelet", "etcd", "etcdutl"])
    trees = found.publish(store, cache)
    first, last = (found.variables(store, trees, url, given, ours=True) for given in BOTH)
    assert get(first["cluster_files"]["kubelet"]["url"]) == b"kubelet 1.36.1"
    assert get(last["cluster_files"]["kubelet"]["url"]) == b"kubelet 1.36.3"
    assert last["cluster_files"]["etcd"]["url"] == last["cluster_files"]["etcdutl"]["url"]
    assert last["cluster_files"]["etcdutl"]["version"] == "3.6.8"
    assert get(f"{last['cluster_files_url']}/chart.tgz") == b"chart"
    assert first["cluster_files_url"] != last["cluster_files_url"]
    assert len(last["cluster_file_checksums"]) == 3
    for address, digest in last["cluster_file_checksums"].items():
        assert hashlib.sha256(get(address)).hexdigest() == digest
    assert last["cluster_files"]["etcd"]["sha256"] in last["cluster_file_checksums"].values()


def test_checksums_of_the_mirrors_own_paths_are_told(store: Store, cache: Path, url: str, tmp_path: Path) -> None:
    found = offer(store.catalogue, tmp_path, serve=["kubelet"])
    trees = found.publish(store, cache)
    (told,) = (found.variables(store, trees, url, given, ours=True)["cluster_checksums"] for given in BOTH[1:])
    assert told == {"kubelet/1.36.3": hashlib.sha256(get(f"{url}/bin/kubelet/1.36.3/kubelet")).hexdigest()}


@pytest.mark.parametrize(
    ("given", "ours", "told"),
    [
        ({"cluster_checksums": {"kubelet/1.36.3": "own"}}, True, {"kubelet/1.36.3": "own"}),
        ({"cluster_artifact_source": "upstream"}, True, None),
        ({}, False, None),
    ],
)
def test_checksums_are_not_told_of_what_others_serve(
    store: Store, cache: Path, tmp_path: Path, given: dict[str, Any], ours: bool, told: Any
) -> None:
    found = offer(store.catalogue, tmp_path, serve=["kubelet"])
    trees = found.publish(store, cache)
    assert found.variables(store, trees, "http://m", moment(**given), ours=ours).get("cluster_checksums") == told


def test_only_what_is_asked_for_is_obtained(store: Store, cache: Path, site: Site, tmp_path: Path) -> None:
    found = offer(store.catalogue, tmp_path, serve=["kubelet"])
    assert {ref.name for ref in found.programs} == {"e2e.test", "ginkgo", "kubectl", "kubelet"}
    assert found.images == ()
    found.publish(store, cache)
    asked = {path for path in site.asked if not path.endswith(".sha256")}
    assert asked == {"/k/v1.36.1/kubelet", "/k/v1.36.3/kubelet"}


def test_a_product_without_files_has_none(store: Store, cache: Path, tmp_path: Path) -> None:
    found = offer(store.catalogue, tmp_path)
    assert found.publish(store, cache) == {}
    assert not (cache / "files").exists()
    assert set(found.variables(store, {}, "http://m", moment(), ours=True)) == {"cluster_checksums"}


def test_another_run_of_the_product_has_its_files_at_the_same_address(
    store: Store, cache: Path, tmp_path: Path
) -> None:
    both = offer(store.catalogue, tmp_path, serve=["kubelet"])
    alone = Offer.of(store.catalogue, product(serve=["kubelet"]), tmp_path, BOTH[1:])
    of_both, of_one = (found.publish(store, cache) for found in (both, alone))
    assert len(of_both) == 2
    assert of_one.items() <= of_both.items()


def test_images_have_the_names_that_the_product_gives_them(catalogue: Catalogue, tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "agent.tar", docker_files("registry.example/our/agent:1.2"))
    images = [
        "pause",
        {"artifact": "coredns", "as": "coredns/coredns"},
        {"artifact": "pause@3.10.1", "as": "k8s/pause:old"},
        {"archive": "agent.tar"},
        {"archive": "agent.tar", "name": "other:2"},
    ]
    found = offer(catalogue, tmp_path, images=images)
    assert [str(ref) for ref in found.images] == [
        "image/pause@3.10.2",
        "image/coredns@v1.14.2",
        "image/pause@3.10.1",
    ]
    assert {upload.name: upload.source for upload in found.uploads} == {
        "coredns/coredns:v1.14.2": Ref("image/coredns", "v1.14.2"),
        "k8s/pause:old": Ref("image/pause", "3.10.1"),
        "our/agent:1.2": archive,
        "other:2": archive,
    }


def test_two_images_of_one_name_are_a_mistake(catalogue: Catalogue, tmp_path: Path) -> None:
    write_tar(tmp_path / "agent.tar", docker_files("pause:3.10.2"))
    with pytest.raises(BadInput, match=r"agent\.tar and image/pause@3\.10\.2 would both be the image pause:3\.10\.2"):
        offer(catalogue, tmp_path, images=["pause", {"archive": "agent.tar"}])


def test_a_file_and_an_archive_have_the_checksums_of_what_is_sent(
    site: Site, small: Catalogue, cache: Path, url: str
) -> None:
    site.offer("/v1.2.3/tool", b"tool")
    site.offer(
        "/pair-4.5.6.tgz", archive({f"pair-4.5.6/bin/{name}": name.encode() * 999 for name in ("left", "right")})
    )
    store = Store(cache / "artifacts", Source.RELEASE, small, {"http://site": site.url})
    found = checksums([store.obtain("tool", "1.2.3"), store.obtain("pair", "4.5.6")])
    sent = {"tool/1.2.3": "/bin/tool/1.2.3/tool", "pair/4.5.6": "/bin/pair/4.5.6/pair.tar"}
    assert found == {name: hashlib.sha256(get(f"{url}{path}")).hexdigest() for name, path in sent.items()}
