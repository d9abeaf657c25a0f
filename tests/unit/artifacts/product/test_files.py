"""Files of a product on the mirror: where they lie, how archives are packed, what the index says."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts.catalogue import Catalogue, architecture, load
from harness.artifacts.product.files import BLOCK, LaidOut, Tree, layout, pack_archive, publish_tree, refs_of
from harness.artifacts.recipe import Ref
from harness.artifacts.store import Store
from harness.errors import BadInput
from tests.unit.artifacts.product.conftest import get, moment, product

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
        ([{"artifact": "etcd", "as": "own/etcd"}], "etcd has the files etcd, etcdctl, and own/etcd is not an archive"),
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


# of an archive with bin/one ("one") alone: another value means that products find other checksums after an update
KNOWN = "66fc4f10d6afe0998ea1"


@pytest.fixture
def members(tmp_path: Path) -> dict[str, Path]:
    files = {"one": b"one", "large": os.urandom(3 * BLOCK + 7)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return {"v1/bin/one": tmp_path / "one", "v1/large": tmp_path / "large"}


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar"])
def test_tar_unpacks_it_with_its_folders_and_modes(members: dict[str, Path], tmp_path: Path, name: str) -> None:
    pack_archive(tmp_path / name, members)
    (tmp_path / "out").mkdir()
    proc.run(["tar", "-xf", tmp_path / name, "-C", tmp_path / "out", "--strip-components=1"], timeout=10)
    assert (tmp_path / "out" / "bin" / "one").read_bytes() == b"one"
    assert (tmp_path / "out" / "large").read_bytes() == (tmp_path / "large").read_bytes()
    assert (tmp_path / "out" / "large").stat().st_mode & 0o777 == 0o755


def test_it_is_the_same_whenever_and_in_whatever_order_it_is_made(members: dict[str, Path], tmp_path: Path) -> None:
    pack_archive(tmp_path / "first.tar.gz", members)
    for path in members.values():
        os.utime(path, (0, 0))
    pack_archive(tmp_path / "second.tar.gz", dict(reversed(members.items())))
    assert (tmp_path / "first.tar.gz").read_bytes() == (tmp_path / "second.tar.gz").read_bytes()


def test_the_bytes_of_an_archive_are_known(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"one")
    pack_archive(tmp_path / "one.tar.gz", {"bin/one": tmp_path / "one"})
    assert hashlib.sha256((tmp_path / "one.tar.gz").read_bytes()).hexdigest().startswith(KNOWN)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_gzip_accepts_every_length(tmp_path: Path, size: int) -> None:
    (tmp_path / "f").write_bytes(b"x" * size)
    pack_archive(tmp_path / "f.tar.gz", {"f": tmp_path / "f"})
    proc.run(["gzip", "--test", tmp_path / "f.tar.gz"], timeout=10)
    with gzip.open(tmp_path / "f.tar.gz") as raw, tarfile.open(fileobj=raw) as tar:
        assert [(entry.name, entry.size, entry.mtime, entry.uname) for entry in tar] == [("f", size, 0, "")]


ETCD = f"hub.example/etcd-io/v3.6.8/etcd-v3.6.8-linux-{architecture()}.tar.gz"


def published(store: Store, cache: Path, *serve: Any, folder: Path | None = None) -> Tree:
    laid_out = layout(store.catalogue, product(serve=serve).artifacts, moment())
    return publish_tree(cache, store.ensure(refs_of(laid_out)), laid_out, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a product's own folder."""
    (tmp_path / "own" / "charts").mkdir(parents=True)
    (tmp_path / "own" / "charts" / "our chart_1.tgz").write_bytes(b"chart")
    (tmp_path / "own" / ".hidden@1").write_bytes(b"hidden")
    return tmp_path / "own"


def test_programs_and_own_files_are_served(store: Store, cache: Path, url: str, folder: Path) -> None:
    tree = published(store, cache, "kubelet", "etcd", "etcdutl", folder=folder)
    base = f"{url}/files/{tree.key}"
    assert get(f"{base}/dl.example/v1.36.3/kubelet") == b"kubelet 1.36.3"
    with tarfile.open(fileobj=io.BytesIO(get(f"{base}/{ETCD}"))) as archive:
        assert {entry.name for entry in archive if entry.isfile()} == {"etcd-v3.6.8/etcd", "etcd-v3.6.8/etcdutl"}
        content = archive.extractfile("etcd-v3.6.8/etcd")
        assert content is not None
        assert content.read() == b"etcd" * 40_000
    assert get(f"{base}/charts/our%20chart_1.tgz") == b"chart"
    assert get(f"{base}/.hidden@1") == b"hidden"
    for path, digest in tree.sums.items():
        assert hashlib.sha256(get(f"{base}/{path.replace(' ', '%20')}")).hexdigest() == digest


def test_checksums_lie_beside_the_files_as_upstream_publishes_them(
    store: Store, cache: Path, url: str, folder: Path, tmp_path: Path
) -> None:
    own = {"artifact": "kubectl", "as": "own/{name}"}
    tree = published(store, cache, "kubelet", "etcd", own, folder=folder)
    base = f"{url}/files/{tree.key}"
    assert get(f"{base}/dl.example/v1.36.3/kubelet.sha256").decode().split() == [
        tree.sums["dl.example/v1.36.3/kubelet"]
    ]
    for path, sums in ((ETCD, "hub.example/etcd-io/v3.6.8/SHA256SUMS"), ("own/kubectl", "own/kubectl.sha256")):
        (tmp_path / Path(path).name).write_bytes(get(f"{base}/{path}"))
        (tmp_path / "sums").write_bytes(get(f"{base}/{sums}"))
        assert "OK" in proc.run(["sha256sum", "--check", "sums"], cwd=tmp_path, timeout=10).stdout
    everything = get(f"{base}/SHA256SUMS").decode().splitlines()
    assert everything == [f"{digest}  {path}" for path, digest in tree.sums.items()]


def test_the_address_says_what_is_there(store: Store, cache: Path, url: str, folder: Path) -> None:
    first = published(store, cache, "kubelet", folder=folder)
    assert published(store, cache, "kubelet", folder=folder) == first
    (folder / "charts" / "our chart_1.tgz").write_bytes(b"other")
    second = published(store, cache, "kubelet", folder=folder)
    assert second.key != first.key
    assert get(f"{url}/files/{second.key}/charts/our%20chart_1.tgz") == b"other"
    with pytest.raises(urllib.error.HTTPError, match="404"):  # not what that address promised any more
        get(f"{url}/files/{first.key}/charts/our%20chart_1.tgz")
    assert get(f"{url}/files/{first.key}/dl.example/v1.36.3/kubelet") == b"kubelet 1.36.3"


def test_an_archive_is_made_once(store: Store, cache: Path) -> None:
    published(store, cache, "etcd")
    (packed,) = cache.glob("artifacts/etcd/3.6.8/release-*/packed/*.tar.gz")
    before = packed.stat().st_ino
    published(store, cache, "etcd")
    assert packed.stat().st_ino == before


@pytest.mark.parametrize("path", ["", "dl.example", "dl.example/v1.36.3", "../artifacts", "%2e%2e/%2e%2e/secret", "x"])
def test_nothing_else_is_served(store: Store, cache: Path, url: str, path: str) -> None:
    tree = published(store, cache, "kubelet")
    (cache / "secret").write_text("secret")
    for key in (tree.key, "0" * 16, "..", "nothing"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{url}/files/{key}/{path}")


def test_a_file_in_a_programs_place_is_a_mistake(store: Store, cache: Path, folder: Path) -> None:
    (folder / "dl.example/v1.36.3").mkdir(parents=True)
    (folder / "dl.example/v1.36.3/kubelet").write_text("ours")
    with pytest.raises(BadInput, match=r"dl\.example/v1\.36\.3/kubelet is a file of .*own, and a program"):
        published(store, cache, "kubelet", folder=folder)


def test_an_own_list_of_checksums_is_served_instead(store: Store, cache: Path, url: str, folder: Path) -> None:
    (folder / "SHA256SUMS").write_text("ours\n")
    assert get(f"{url}/files/{published(store, cache, folder=folder).key}/SHA256SUMS") == b"ours\n"


def test_a_large_folder_is_read_once(store: Store, cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = published(store, cache, folder=folder)
    monkeypatch.setattr("harness.artifacts.product.files.sha256_of", lambda path: pytest.fail(f"read {path} again"))
    assert published(store, cache, folder=folder) == first


def test_an_old_index_whose_files_are_gone_goes_too(store: Store, cache: Path, folder: Path) -> None:
    first = published(store, cache, folder=folder)
    os.unlink(folder / ".hidden@1")
    second = published(store, cache, folder=folder)
    assert {path.stem for path in (cache / "files").glob("*.json")} == {first.key, second.key}  # a run may use it
    os.utime(cache / "files" / f"{first.key}.json", (0, 0))
    assert published(store, cache, folder=folder) == second
    assert {path.stem for path in (cache / "files").glob("*.json")} == {second.key}
