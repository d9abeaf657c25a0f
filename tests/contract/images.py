"""A web site of disk images for importers: good ones, a slow one, one that stalls, one that is not there.

The images are raw and small: an importer converts raw and qcow2 alike, and nothing boots from them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.contract.limits import lasting

MIB = 1024 * 1024
SIZE = 8 * MIB
CHUNK = 256 * 1024
SLOW_SECONDS = 6.0  # for the whole image
STALL_AFTER = SIZE // 2


def content() -> bytes:
    """Return the image: zeros with a mark in each MiB, so that a wrong copy is seen."""
    blocks = (f"vmatrix contract image, MiB {number}\n".encode().ljust(MIB, b"\0") for number in range(SIZE // MIB))
    return b"".join(blocks)


@dataclass
class Site:
    """A running site; `release` lets the stalled download go on."""

    base: str
    body: bytes
    release: threading.Event = field(default_factory=threading.Event)
    requests: list[str] = field(default_factory=list)

    def url(self, name: str) -> str:
        """Return the URL of good.img, slow.img, stalled.img; any other name answers 404."""
        return f"{self.base}/{name}"

    @property
    def checksum(self) -> str:
        """Return the image's checksum as DataVolumes state it."""
        return f"sha256:{hashlib.sha256(self.body).hexdigest()}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Answer with the headers alone."""
        self._headers()

    def do_GET(self) -> None:
        """Answer with the image, in the way that its name asks for."""
        name = self.path.lstrip("/")
        site = self._site()
        site.requests.append(name)
        if not self._headers():
            return
        first, last = self._range(len(site.body))
        try:
            self._send(name, site, first, last)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, name: str, site: Site, first: int, last: int) -> None:
        pause = SLOW_SECONDS * CHUNK / SIZE if name == "slow.img" else 0.0
        for start in range(first, last, CHUNK):
            if name == "stalled.img" and start >= STALL_AFTER:
                site.release.wait(timeout=lasting(60.0))
            elif pause:
                threading.Event().wait(pause)
            self.wfile.write(site.body[start : min(start + CHUNK, last)])

    def _site(self) -> Site:
        assert isinstance(self.server, _Server)
        return self.server.site

    def _headers(self) -> bool:
        known = self.path in {"/good.img", "/slow.img", "/stalled.img"}
        size = len(self._site().body)
        first, last = self._range(size)
        partial = known and "Range" in self.headers
        self.send_response(206 if partial else 200 if known else 404)
        self.send_header("Content-Length", str(last - first if known else 0))
        self.send_header("Accept-Ranges", "bytes")
        if partial:
            self.send_header("Content-Range", f"bytes {first}-{last - 1}/{size}")
        self.end_headers()
        return known

    def _range(self, size: int) -> tuple[int, int]:
        """Return the first byte and the one after the last that a request asks for."""
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        first, _, last = asked.partition("-")
        return int(first or 0), int(last) + 1 if last else size

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@contextmanager
def serve(address: str) -> Iterator[Site]:
    """Serve the images on a free port of an address of this host."""
    server = _Server((address, 0), _Handler)
    server.site = Site(f"http://{address}:{server.server_address[1]}", content())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.site
    finally:
        server.site.release.set()
        server.shutdown()
        server.server_close()
