"""A server that sends a byte now and then: no conversation with it is without an end."""

from __future__ import annotations

import hashlib
import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from urllib.request import Request

import pytest

from harness import http_deadline
from harness.artifacts import download
from harness.errors import InfraError, InfraRetriable
from harness.gitlab import note
from harness.history import package
from harness.history.package import PackageStore
from harness.infra.kind import releases
from harness.infra.kind.releases import Manifest
from harness.until import TimedOut

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
SHORT = 0.3  # seconds that a whole answer has here
ENDED = "did not end in time|timed out"  # the whole answer, or, on a host that stands still, a byte of it


class _Dripping(socketserver.StreamRequestHandler):
    begin = HEAD

    def handle(self) -> None:
        """Answer a request with a byte at a time, until the other side is gone."""
        while self.rfile.readline().strip():
            pass
        over = self.server.over  # type: ignore[attr-defined]
        with suppress(OSError):
            self.wfile.write(self.begin)
            while not over.wait(0.02):
                self.wfile.write(b"x")


class _DrippingHead(_Dripping):
    begin = b"HTTP/1.1 200 OK\r\nX-Long: "


@contextmanager
def dripping(handler: type[_Dripping] = _Dripping) -> Iterator[str]:
    """Serve at an address, which is given."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.over = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.over.set()  # type: ignore[attr-defined]
            server.shutdown()
            thread.join()


def _fetched(url: str, target: Path) -> None:
    download.download(f"{url}/file", "sha256:" + hashlib.sha256(b"").hexdigest(), target, hint="")


def test_a_site_that_drips_is_too_slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = count(0, 50)  # seconds from one look at it to the next
    monkeypatch.setattr(download, "monotonic", lambda: next(clock))
    with dripping() as url, pytest.raises(InfraRetriable, match=r"is too slow: \d+ bytes in 150 s"):
        _fetched(url, tmp_path / "file")


def test_a_file_that_comes_at_a_fair_pace_may_take_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = count(0, 50)
    monkeypatch.setattr(download, "monotonic", lambda: next(clock))
    monkeypatch.setattr(download, "PACE_BYTES", 0)
    content = bytes(20 * download.CHUNK)
    source = tmp_path / "source"
    source.write_bytes(content)
    expected = "sha256:" + hashlib.sha256(content).hexdigest()
    with _folder(tmp_path) as url:
        download.download(f"{url}/source", expected, tmp_path / "file", hint="")
    assert (tmp_path / "file").read_bytes() == content


@pytest.mark.parametrize("ask", [_fetched, lambda url, _: download.text(f"{url}/SUMS", hint="")])
def test_a_site_whose_headers_never_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: Callable[[str, Path], None]
) -> None:
    monkeypatch.setattr(download, "READ_SECONDS", SHORT)
    with dripping(_DrippingHead) as url, pytest.raises(InfraRetriable, match=ENDED):
        ask(url, tmp_path / "file")


def test_a_look_at_a_site_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "HEAD_SECONDS", SHORT)
    with dripping(_DrippingHead) as url:
        assert re.search(ENDED, download.trouble(f"{url}/image") or "")


def test_a_gitlab_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "WHOLE_SECONDS", SHORT)
    monkeypatch.setattr(package, "RETRY_SECONDS", SHORT)
    with dripping() as url, pytest.raises(TimedOut, match="did not end in time"):
        PackageStore(url, "1", "history", "JOB-TOKEN", "t").load()


def test_a_gitlab_that_drips_at_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note, "WHOLE_SECONDS", SHORT)
    with dripping() as url, pytest.raises(InfraError, match="did not end in time"):
        note.put(note.MergeRequest(url, "1", "1"), "text", mark="m", token="t")


def test_an_answer_that_is_larger_than_any_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(100))
    with _folder(tmp_path) as url:
        request = Request(f"{url}/large")  # noqa: S310 - of this test
        with http_deadline.opened(request, SHORT * 100) as answer, pytest.raises(http_deadline.TooMuch):
            http_deadline.whole(answer, largest=99)
        with http_deadline.opened(request, SHORT * 100) as answer:
            assert http_deadline.whole(answer, largest=100) == bytes(100)


def test_a_release_that_drips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(releases, "WHOLE_SECONDS", SHORT)
    with dripping() as url, pytest.raises(InfraRetriable, match="did not end in time"):
        releases.obtain(Manifest(url=f"{url}/operator.yaml", sha256="0" * 64), tmp_path)


@contextmanager
def _folder(path: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(path)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
