"""A product's files on a mirror that really serves them: what is there, with which checksums, and for how long."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts.catalogue import architecture
from harness.artifacts.product.layout import layout, refs_of
from harness.artifacts.product.tree import Tree, publish
from harness.artifacts.store import Store
from harness.errors import BadInput
from tests.unit.artifacts.product.conftest import get, moment, product

ETCD = f"hub.example/etcd-io/v3.6.8/etcd-v3.6.8-linux-{architecture()}.tar.gz"


def published(store: Store, cache: Path, *serve: Any, folder: Path | None = None) -> Tree:
    laid_out = layout(store.catalogue, product(serve=serve).artifacts, moment())
    return publish(cache, store.ensure(refs_of(laid_out)), laid_out, folder)


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
    monkeypatch.setattr("harness.artifacts.product.tree.sha256_of", lambda path: pytest.fail(f"read {path} again"))
    assert published(store, cache, folder=folder) == first


def test_an_old_index_whose_files_are_gone_goes_too(store: Store, cache: Path, folder: Path) -> None:
    first = published(store, cache, folder=folder)
    os.unlink(folder / ".hidden@1")
    second = published(store, cache, folder=folder)
    assert {path.stem for path in (cache / "files").glob("*.json")} == {first.key, second.key}  # a run may use it
    os.utime(cache / "files" / f"{first.key}.json", (0, 0))
    assert published(store, cache, folder=folder) == second
    assert {path.stem for path in (cache / "files").glob("*.json")} == {second.key}
