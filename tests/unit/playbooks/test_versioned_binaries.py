"""The module that has versions of binaries: whole or not at all, linked, moved by an upgrade, asked for once."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import module

binaries = module("library/versioned_binaries.py")


@dataclass
class Mirror:
    """An HTTP mirror on the loopback address; `cut` paths announce more than they send."""

    url: str
    content: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    """Yield a running mirror."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            body = served.content.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + (self.path in served.cut)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Mirror(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a root with store/ and bin/ under it."""
    return tmp_path


def tar(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def release(
    mirror: Mirror, place: Path, version: str, file: str = "kubelet", sha256: str | None = None
) -> dict[str, Any]:
    url = f"{mirror.url}/kubelet/{version}/{file}"
    return {"name": "kubelet", "version": version, "url": url, "links": str(place / "bin"), "sha256": sha256}


def apply(releases: list[dict[str, Any]], place: Path, *, dry: bool = False) -> tuple[list[str], list[str]]:
    downloaded = binaries.fetch_missing(releases, place / "store", 5, dry=dry)
    return downloaded, binaries.link_all(releases, place / "store", dry=dry)


def test_has_a_binary_and_links_it(mirror: Mirror, place: Path) -> None:
    mirror.content["/kubelet/1/kubelet"] = b"one"
    assert apply([release(mirror, place, "1")], place) == (["kubelet/1"], [str(place / "bin/kubelet")])
    assert (place / "bin/kubelet").read_bytes() == b"one"
    assert (place / "bin/kubelet").stat().st_mode & 0o777 == 0o755


def test_unpacks_the_top_level_of_a_tar_file(mirror: Mirror, place: Path) -> None:
    mirror.content["/kubelet/1/kubelet.tar"] = tar(
        **{"./bridge": b"b", "portmap": b"p", "deep/evil": b"e", "../up": b"u"}
    )
    apply([release(mirror, place, "1", "kubelet.tar")], place)
    assert sorted(link.name for link in (place / "bin").iterdir()) == ["bridge", "portmap"]


@pytest.mark.parametrize("file", ["kubelet", "kubelet.tar"])
def test_a_release_is_on_the_disk_before_it_has_its_name(
    mirror: Mirror, place: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    mirror.content[f"/kubelet/1/{file}"] = tar(kubelet=b"one") if file.endswith(".tar") else b"one"
    done: list[str] = []
    name_it = os.replace

    def synced(opened: int) -> None:
        done.append(Path(f"/proc/self/fd/{opened}").resolve().name)

    def replaced(source: Path, target: Path) -> None:
        done.append("replaced")
        name_it(source, target)

    monkeypatch.setattr(binaries.os, "fsync", synced)
    monkeypatch.setattr(binaries.os, "replace", replaced)
    binaries.obtain(release(mirror, place, "1", file), place / "store", 5)
    assert done == ["kubelet", "content", "replaced"]


def test_a_second_time_asks_nothing_and_changes_nothing(mirror: Mirror, place: Path) -> None:
    mirror.content["/kubelet/1/kubelet"] = b"one"
    apply([release(mirror, place, "1")], place)
    assert apply([release(mirror, place, "1")], place) == ([], [])
    assert mirror.asked == ["/kubelet/1/kubelet"]


def test_an_upgrade_moves_the_link_and_keeps_the_old_version(mirror: Mirror, place: Path) -> None:
    mirror.content |= {"/kubelet/1/kubelet": b"one", "/kubelet/2/kubelet": b"two"}
    apply([release(mirror, place, "1")], place)
    assert apply([release(mirror, place, "2")], place) == (["kubelet/2"], [str(place / "bin/kubelet")])
    assert (place / "bin/kubelet").read_bytes() == b"two"
    assert (place / "store/kubelet/1/kubelet").read_bytes() == b"one"


def test_replaces_a_file_that_is_in_the_place_of_a_link(mirror: Mirror, place: Path) -> None:
    mirror.content["/kubelet/1/kubelet"] = b"one"
    (place / "bin").mkdir()
    (place / "bin/kubelet").write_bytes(b"by hand")
    apply([release(mirror, place, "1")], place)
    assert (place / "bin/kubelet").read_bytes() == b"one"


def test_check_mode_says_what_would_be_downloaded_and_asks_nothing(mirror: Mirror, place: Path) -> None:
    assert apply([release(mirror, place, "1")], place, dry=True) == (["kubelet/1"], [])
    assert mirror.asked == []
    assert not (place / "store").exists()


@pytest.mark.parametrize("wrong", ["absent", "cut", "checksum"])
def test_what_did_not_come_whole_is_not_there(mirror: Mirror, place: Path, wrong: str) -> None:
    if wrong != "absent":
        mirror.content["/kubelet/1/kubelet"] = b"one"
    if wrong == "cut":
        mirror.cut.add("/kubelet/1/kubelet")
    checksum = hashlib.sha256(b"other").hexdigest() if wrong == "checksum" else None
    with pytest.raises(binaries.DownloadFailed, match="/kubelet/1/kubelet") as failed:
        apply([release(mirror, place, "1", sha256=checksum)], place)
    assert failed.value.asked is (wrong != "cut"), "the mirror answered, and what was asked for is wrong"
    assert list((place / "store/kubelet").iterdir()) == []
    assert not (place / "bin").exists()


def test_the_connection_of_an_answer_that_is_an_error_is_closed(mirror: Mirror) -> None:
    with pytest.raises(binaries.DownloadFailed) as failed:
        binaries.fetch(f"{mirror.url}/absent", io.BytesIO(), sha256=None, timeout=5)
    assert isinstance(failed.value.__cause__, urllib.error.HTTPError)
    assert failed.value.__cause__.closed


def test_a_right_checksum_is_accepted(mirror: Mirror, place: Path) -> None:
    mirror.content["/kubelet/1/kubelet"] = b"one"
    apply([release(mirror, place, "1", sha256=hashlib.sha256(b"one").hexdigest())], place)
    assert (place / "bin/kubelet").exists()


def test_refuses_another_scheme(place: Path) -> None:
    wanted = {"name": "a", "version": "1", "url": "file:///etc/passwd", "links": str(place / "bin"), "sha256": None}
    with pytest.raises(binaries.DownloadFailed, match="only http"):
        apply([wanted], place)


def test_takes_one_folder_of_a_compressed_archive_whose_checksum_is_published(mirror: Mirror, place: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("etcd-1/etcd", "etcd-1/Documentation/readme", "README"):
            entry = tarfile.TarInfo(name)
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"e"))
    content = packed.getvalue()
    sums = f"{'0' * 64}  other.tar.gz\n{hashlib.sha256(content).hexdigest()}  etcd.tar.gz\n"
    mirror.content |= {"/etcd.tar.gz": content, "/SHA256SUMS": sums.encode()}
    wanted = {"name": "etcd", "version": "1", "url": f"{mirror.url}/etcd.tar.gz", "links": str(place / "bin")}
    apply([wanted | {"sha256": None, "sha256_url": f"{mirror.url}/SHA256SUMS", "folder": "etcd-1"}], place)
    assert [link.name for link in (place / "bin").iterdir()] == ["etcd"]


def test_refuses_what_its_makers_published_another_checksum_for(mirror: Mirror, place: Path) -> None:
    mirror.content |= {"/runc.amd64": b"one", "/runc.sha256sum": f"{'0' * 64} *runc.amd64\n".encode()}
    wanted = {"name": "runc", "version": "1", "url": f"{mirror.url}/runc.amd64", "links": str(place / "bin")}
    with pytest.raises(binaries.DownloadFailed, match="checksum"):
        apply([wanted | {"sha256": None, "sha256_url": f"{mirror.url}/runc.sha256sum"}], place)


def test_a_binary_is_called_as_its_release_is(mirror: Mirror, place: Path) -> None:
    mirror.content["/runc.amd64"] = b"one"
    wanted = {"name": "runc", "version": "1", "url": f"{mirror.url}/runc.amd64", "links": str(place / "bin")}
    apply([wanted | {"sha256": None}], place)
    assert [link.name for link in (place / "bin").iterdir()] == ["runc"]


def test_what_is_only_fetched_leaves_the_links_as_they_are(mirror: Mirror, place: Path) -> None:
    mirror.content |= {"/kubelet/1/kubelet": b"one", "/kubelet/2/kubelet": b"two"}
    apply([release(mirror, place, "1")], place)
    assert binaries.fetch_missing([release(mirror, place, "2")], place / "store", 5, dry=False) == ["kubelet/2"]
    assert (place / "bin/kubelet").read_bytes() == b"one"
    assert (place / "store/kubelet/2/kubelet").read_bytes() == b"two"
