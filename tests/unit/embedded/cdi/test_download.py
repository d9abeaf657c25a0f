"""Downloads: verified, explained when they fail, stopped when told to. Against a server in this process."""

from __future__ import annotations

import errno
import hashlib
import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.embedded.cdi.download import (
    Cancel,
    Cancelled,
    ChecksumMismatch,
    Request,
    TransferFailed,
    basic_auth,
    fetch,
    look,
)

BODY = b"vmatrix " * 100_000
SHA256 = "sha256:" + hashlib.sha256(BODY).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stalled = threading.Event()
    release = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/image")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/private" and self.headers.get("Authorization") != basic_auth("me", "word")["Authorization"]:
            self.send_error(401)
            return
        if self.path == "/none":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        half = len(BODY) // 2
        self.wfile.write(BODY[:half])
        if self.path == "/stalled":
            self.stalled.set()
            self.release.wait(10)
        if self.path in {"/torn", "/stalled"}:
            self.close_connection = True
            return
        self.wfile.write(BODY[half:])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        _Handler.release.set()
        server.shutdown()


def download(request: Request, cancel: Cancel | None = None) -> tuple[bytes, list[float]]:
    sink, shares = io.BytesIO(), list[float]()
    fetch(request, sink, cancel or Cancel(), shares.append)
    return sink.getvalue(), shares


@pytest.mark.parametrize("path", ["/image", "/moved"])
def test_a_good_download_is_whole_and_tells_its_progress(site: str, path: str) -> None:
    body, shares = download(Request(site + path, SHA256))
    assert body == BODY
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256", "sha512"])
def test_every_admitted_algorithm_is_verified(site: str, algorithm: str) -> None:
    digest = hashlib.new(algorithm, BODY, usedforsecurity=False).hexdigest()
    assert download(Request(site + "/image", f"{algorithm}:{digest.upper()}"))[0] == BODY
    mismatch = f": checksum mismatch: expected {algorithm}:{'0' * len(digest)}, calculated {algorithm}:{digest}$"
    with pytest.raises(ChecksumMismatch, match=mismatch):
        download(Request(site + "/image", f"{algorithm}:{'0' * len(digest)}"))


def test_a_missing_image_is_told_as_the_importer_does(site: str) -> None:
    missing = r"^Unable to connect to http data source: expected status code 200, got 404\. Status: 404 Not Found$"
    with pytest.raises(TransferFailed, match=missing):
        download(Request(site + "/none"))
    with pytest.raises(TransferFailed, match=missing):
        look(Request(site + "/none"), Cancel())
    look(Request(site + "/moved"), Cancel())


def test_a_sink_without_room_is_told_as_full(site: str) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with pytest.raises(TransferFailed) as raised:
        fetch(Request(site + "/image"), Full(), Cancel(), lambda _: None)
    transfer = "Unable to process data: Unable to transfer source data to scratch space"
    assert str(raised.value) == f"{transfer}: unable to write to file: write /scratch/tmpimage: disk quota exceeded"


def test_a_torn_download_is_no_image(site: str) -> None:
    with pytest.raises(TransferFailed, match=r"scratch space: failed to pull image: unexpected EOF$"):
        download(Request(site + "/torn"))


def test_nobody_there_names_the_url() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as gone:
        port = gone.server_address[1]
    address = f"127.0.0.1:{port}"
    refused = f'HTTP request errored: Get "http://{address}/x": dial tcp {address}: connect: connection refused$'
    with pytest.raises(TransferFailed, match=refused):
        download(Request(f"http://127.0.0.1:{port}/x"))


def test_credentials_are_sent(site: str) -> None:
    assert download(Request(site + "/private", headers=basic_auth("me", "word")))[0] == BODY
    with pytest.raises(TransferFailed, match="got 401"):
        download(Request(site + "/private"))


def test_a_download_that_stalls_can_be_stopped(site: str) -> None:
    cancel, ended = Cancel(), list[BaseException]()

    def work() -> None:
        try:
            download(Request(site + "/stalled"), cancel)
        except Cancelled as error:
            ended.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert _Handler.stalled.wait(5)
    cancel.set()
    worker.join(5)
    assert not worker.is_alive()
    assert len(ended) == 1
