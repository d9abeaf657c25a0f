"""The mirror: files, archives made on the way out, and nothing but what lies in the cache."""

from __future__ import annotations

import http.client
import io
import os
import socket
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts import mirror
from harness.until import Deadline, NotYet, until


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache with one artifact of two files and one disk image."""
    version = tmp_path / "artifacts" / "containerd" / "2.4.2"
    files = version / "gomod-0123456789ab" / "files"
    files.mkdir(parents=True)
    (files / "containerd").write_bytes(b"c" * 100_000)
    (files / "ctr").write_bytes(b"t" * 7)
    (version / "current").symlink_to("gomod-0123456789ab")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "debian-13-0123456789ab.qcow2").write_bytes(b"q" * 10)
    (tmp_path / "secret").write_text("secret")
    return tmp_path


@pytest.fixture
def address(cache: Path) -> Iterator[str]:
    with mirror.server("127.0.0.1:0", cache) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def ask(address: str, path: str, method: str = "GET") -> tuple[int, int, bytes]:
    """Return status, announced length and body."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, int(answer.headers["Content-Length"]), body


def test_it_tells_whom_it_sees(address: str) -> None:
    assert ask(address, "/client") == (200, 10, b"127.0.0.1\n")
    assert ask(address, "/client", "HEAD") == (200, 10, b"")
    assert ask(address, "/client/x")[0] == 404


def test_a_file_is_served_whole(address: str) -> None:
    assert ask(address, "/bin/containerd/2.4.2/containerd") == (200, 100_000, b"c" * 100_000)


def test_a_disk_image_is_found_by_its_name_alone(address: str, cache: Path) -> None:
    images = cache / "images"
    (images / "debian-13-vm-0123456789ab.qcow2").write_bytes(b"another name")
    (images / "debian-13-aaaaaaaaaaaa.qcow2").write_bytes(b"older")
    os.utime(images / "debian-13-aaaaaaaaaaaa.qcow2", (1, 1))
    (cache / "outside-0123456789ab.qcow2").write_bytes(b"secret")
    (images / "outside-0123456789ab.qcow2").symlink_to(cache / "outside-0123456789ab.qcow2")
    assert ask(address, "/images/debian-13.qcow2") == (200, 10, b"q" * 10)
    for name in ("debian-12.qcow2", "debian.qcow2", "outside.qcow2", "..qcow2"):
        assert ask(address, f"/images/{name}")[0] == 404


def test_head_announces_and_sends_nothing(address: str) -> None:
    assert ask(address, "/bin/containerd/2.4.2/containerd", "HEAD") == (200, 100_000, b"")
    assert ask(address, "/bin/containerd/2.4.2/nothing", "HEAD")[0] == 404


def test_all_files_come_as_one_archive(address: str) -> None:
    status, length, body = ask(address, "/bin/containerd/2.4.2/containerd.tar")
    assert (status, length) == (200, len(body))
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert {entry.name: (entry.size, entry.mode) for entry in archive} == {
            "containerd": (100_000, 0o755),
            "ctr": (7, 0o755),
        }
        content = archive.extractfile("containerd")
        assert content is not None
        assert content.read() == b"c" * 100_000


def test_several_requests_go_over_one_connection(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=10)
    for _ in range(3):
        connection.request("GET", "/bin/containerd/2.4.2/ctr")
        assert connection.getresponse().read() == b"t" * 7
    connection.close()


def test_disk_images_and_health(address: str) -> None:
    assert ask(address, "/images/debian-13-0123456789ab.qcow2") == (200, 10, b"q" * 10)
    assert ask(address, "/healthz") == (200, 3, b"ok\n")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/secret",
        "/images/../secret",
        "/images/%2e%2e%2fsecret",
        "/images/..",
        "/bin/containerd/2.4.2/../../../../secret",
        "/bin/containerd/.lock/x",
        "/bin/containerd/9/containerd",
        "/bin/containerd/9/containerd.tar",
        "/images/none.qcow2",
        "/images",
        "/images/",
        "/bin",
        "/bin/containerd/2.4.2",
        "/bin/containerd/2.4.2/",
        "//etc/passwd",
    ],
)
def test_nothing_else_is_served(address: str, path: str) -> None:
    status, length, body = ask(address, path)
    assert status == 404
    assert length == len(body)
    assert b"nothing at" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_nothing_but_reading_is_allowed(address: str, cache: Path, method: str) -> None:
    before = sorted(cache.rglob("*"))
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request(method, "/images/new.qcow2", body=b"x" * 1000)
    answer = connection.getresponse()

    assert (answer.status, answer.headers["Allow"], answer.headers["Connection"]) == (405, "GET, HEAD", "close")
    assert answer.read() == f"{method} is not allowed: this mirror only serves files, by GET and HEAD\n".encode()
    connection.close()
    assert sorted(cache.rglob("*")) == before


def test_a_large_upload_is_refused_before_it_is_sent(address: str) -> None:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(
            b"PUT /images/x HTTP/1.1\r\nHost: m\r\nContent-Length: 1099511627776\r\nExpect: 100-continue\r\n\r\n"
        )
        said = b"".join(iter(lambda: connection.recv(4096), b""))  # to the end of the connection
    assert said.startswith(b"HTTP/1.1 405 ")


def test_no_link_leads_out_of_the_cache(address: str, cache: Path) -> None:
    files = cache / "artifacts/containerd/2.4.2/current/files"
    (cache / "images" / "away.qcow2").symlink_to(cache / "secret")
    (files / "away").symlink_to("/etc/hostname")
    assert ask(address, "/images/away.qcow2")[0] == 404
    assert ask(address, "/bin/containerd/2.4.2/away")[0] == 404
    with tarfile.open(fileobj=io.BytesIO(ask(address, "/bin/containerd/2.4.2/containerd.tar")[2])) as archive:
        assert sorted(archive.getnames()) == ["containerd", "ctr"]


def test_folders_of_the_cache_may_be_links_to_another_disk(address: str, cache: Path) -> None:
    (cache / "images").rename(cache / "elsewhere")
    (cache / "images").symlink_to(cache / "elsewhere")
    assert ask(address, "/images/debian-13-0123456789ab.qcow2")[0] == 200


def test_it_runs_as_a_process_and_ends_on_sigterm(cache: Path, tmp_path: Path) -> None:
    taken = mirror.server("127.0.0.1:0", cache)
    port = taken.server_address[1]
    taken.server_close()
    argv = mirror.mirror_argv(f"127.0.0.1:{port}", cache)
    service = proc.spawn(argv, log=tmp_path / "log", env={"PYTHONPATH": str(Path(__file__).parents[3])})

    def answers() -> bool | NotYet:
        try:
            return ask(f"127.0.0.1:{port}", "/healthz")[0] == 200
        except OSError as error:
            return NotYet(str(error))

    try:
        assert until(answers, deadline=Deadline.after(10), what="the mirror answers", interval=0.02)
    finally:
        service.stop(grace=5)
    assert not service.alive()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_taken_address_is_said_and_is_a_failure(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mirror.server("127.0.0.1:0", cache) as server:
        address = f"127.0.0.1:{server.server_address[1]}"
        assert mirror.main(["--listen", address, "--root", str(cache)]) == 1
    assert f"cannot listen on {address}" in capsys.readouterr().err


def test_it_imports_little() -> None:
    code = "import sys, harness.artifacts.mirror; print({'pydantic', 'yaml', 'kubernetes', 'rich'} & set(sys.modules))"
    argv = [sys.executable, "-c", code]
    assert proc.run(argv, timeout=20, env={"PYTHONPATH": str(Path(__file__).parents[3])}).stdout.strip() == "set()"


def test_the_record_of_the_newest_disk_image_is_found_by_its_name(address: str, cache: Path) -> None:
    images = cache / "images"
    (images / "debian-13-0123456789ab.json").write_text("{}")
    (images / "debian-13-aaaaaaaaaaaa.json").write_text("older")
    os.utime(images / "debian-13-aaaaaaaaaaaa.json", (1, 1))
    assert ask(address, "/images/debian-13.json") == (200, 2, b"{}")
    for name in ("debian-12.json", "debian.json", ".json"):
        assert ask(address, f"/images/{name}")[0] == 404
