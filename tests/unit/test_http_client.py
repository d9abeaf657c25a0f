"""A server that sends a byte now and then: no conversation with it is without an end."""

from __future__ import annotations

import hashlib
import re
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import BadStatusLine, IncompleteRead, RemoteDisconnected
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from socket import gaierror
from typing import Any
from urllib.error import URLError

import pytest
import urllib3

from harness import http_client
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


class _NotHttp(_Dripping):
    begin = b"SSH-2.0-OpenSSH\r\n"


@pytest.mark.parametrize("ask", [_fetched, lambda url, _: download.text(f"{url}/SUMS", hint="")])
def test_a_site_that_speaks_something_else_is_named(tmp_path: Path, ask: Callable[[str, Path], None]) -> None:
    with dripping(_NotHttp) as url, pytest.raises(InfraRetriable, match=r"/\w+ cannot be reached: the answer is not"):
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
        request = http_client.WebRequest(f"{url}/large")
        with http_client.opened(request, SHORT * 100) as answer, pytest.raises(http_client.TooMuch):
            http_client.whole(answer, largest=99)
        with http_client.opened(request, SHORT * 100) as answer:
            assert http_client.whole(answer, largest=100) == bytes(100)


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


OS = ConnectionRefusedError(111, "Connection refused")
POOL: Any = urllib3.HTTPSConnectionPool("h", 443)
LINK: Any = POOL.ConnectionCls("h", 443)


def raised(error: BaseException, cause: BaseException) -> BaseException:
    """Return an error that another one caused."""
    error.__cause__ = cause
    return error


# What libraries raise around a request, and what is said of it.
REASONS = [
    (OS, "Connection refused"),
    (URLError(OS), "Connection refused"),
    (urllib3.exceptions.NewConnectionError(LINK, "Failed to establish a new connection: x"), "x"),
    (raised(urllib3.exceptions.NewConnectionError(LINK, f"Failed: {OS}"), OS), "Connection refused"),
    (
        urllib3.exceptions.MaxRetryError(POOL, "/v", urllib3.exceptions.ProtocolError("Connection aborted.", OS)),
        OS.strerror,
    ),
    (urllib3.exceptions.ProtocolError("Connection aborted.", RemoteDisconnected("Remote end")), "closed without"),
    (
        raised(
            urllib3.exceptions.NameResolutionError("h", LINK, gaierror(-2, "Name or service not known")),
            gaierror(-2, "Name or service not known"),
        ),
        "Name or service not known",
    ),
    (urllib3.exceptions.ReadTimeoutError(POOL, "/v", "Read timed out. (read timeout=1)"), "no answer in time"),
    (
        raised(urllib3.exceptions.ConnectTimeoutError(LINK, "Connection to h timed out."), TimeoutError("timed out")),
        "in time",
    ),
    (urllib3.exceptions.ProxyError("Unable to connect to proxy", OS), "Connection refused"),
    (TimeoutError("timed out"), "no answer in time"),
    (http_client.TooLong("the answer began but did not end in time"), "the answer began but did not end in time"),
    (IncompleteRead(b"x", 5), "the answer ended before its end"),
    (BadStatusLine("SSH-2.0"), "the answer is not HTTP: SSH-2.0"),
    (ssl.SSLError(1, "wrong version number"), "TLS failed"),
]


@pytest.mark.parametrize(("error", "words"), REASONS, ids=lambda value: type(value).__name__)
def test_why_nothing_came_of_a_request_is_said_without_words_of_python(error: BaseException, words: str) -> None:
    said = http_client.reason(error)
    assert words in said
    assert not re.search(r"Errno|HTTPS?Connection|Error\(|object at|\(host=|0x", said)


class _Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer by the path: a status, a redirect, or the headers that came."""
        word = self.path[1:]
        if word.isdigit():
            self.send_response(int(word), "As asked")
            self.end_headers()
            return
        target = word.removeprefix("to/")
        self.send_response(302 if target != word else 200)
        if target != word:
            self.send_header("Location", f"http://localhost:{target}/seen")
        self.end_headers()
        self.wfile.write(f"{self.headers.get('X-Secret')} {self.headers.get('X-Known')}".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def ask(url: str, **given: Any) -> http_client.Reply:
    return http_client.ask(http_client.WebRequest(url, **given), 5.0)


@pytest.fixture
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "ok"), [(200, True), (204, True), (404, False), (503, False)])
def test_every_status_is_an_answer(echo: str, status: int, ok: bool) -> None:
    reply = ask(f"{echo}/{status}")
    assert (reply.status, reply.reason, reply.ok) == (status, "As asked", ok)


def test_a_secret_is_for_one_server_alone(echo: str) -> None:
    port = echo.rpartition(":")[2]
    given: dict[str, Any] = {"headers": {"X-Known": "k"}, "secrets": {"X-Secret": "s"}}
    assert ask(f"{echo}/seen", **given).content == b"s k"
    assert ask(f"{echo}/to/{port}", **given).content == b"None k"
    kept: tuple[dict[str, Any], ...] = ({"redirects": False}, {"direct": True})
    for stays in kept:
        assert ask(f"{echo}/to/{port}", **given, **stays).status == 302


def test_what_is_near_is_reached_without_a_proxy(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert ask(f"{echo}/seen", direct=True).ok
    with pytest.raises(http_client.NoAnswer, match="Connection refused"):
        ask(f"{echo}/seen")


def test_an_answer_that_does_not_end_is_none() -> None:
    with dripping() as address, pytest.raises(http_client.NoAnswer, match=ENDED):
        http_client.ask(http_client.WebRequest(address), SHORT)


def test_an_answer_that_is_too_large_is_told_apart(echo: str) -> None:
    with pytest.raises(http_client.TooMuch):
        http_client.ask(http_client.WebRequest(f"{echo}/seen"), 5.0, largest=3)
