"""The server of `vmatrix report --serve`: the files of a report, made anew, for one person at this host.

Only GET, only names that are known, only to who asks for a loopback host: another site's script in the same browser
cannot read it by a name that it lets point here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic

from harness.errors import BadInput, VmatrixError

LOOPBACK = "127.0.0.1"
NAMES = frozenset({LOOPBACK, "localhost", "[::1]"})
FRESH_SECONDS = 5.0  # for which one answer serves all
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".svg": "image/svg+xml",
}
Contents = Mapping[str, bytes]


def server(make: Callable[[], Contents], port: int) -> ThreadingHTTPServer:
    """Return a server that is bound and not serving yet; its `server_port` is the port.

    Args:
        make: returns the files by name; "index.html" is also the root.  port: 0 for any that is free.

    Raises:
        BadInput: the port is in use or not allowed.
    """
    handler = type("Handler", (ReportHandler,), {"files": staticmethod(Fresh(make).files)})
    try:
        made = ThreadingHTTPServer((LOOPBACK, port), handler)
    except OSError as error:
        raise BadInput(
            f"cannot serve on {LOOPBACK}:{port}: {error.strerror}", hint="pass another --port, or 0 for any free one"
        ) from error
    made.daemon_threads = True
    return made


@dataclass
class Fresh:
    """Files that are made when they are asked for, and kept for a moment."""

    make: Callable[[], Contents]
    _files: Contents = field(default_factory=dict)
    _made: float = -FRESH_SECONDS
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def files(self) -> Contents:
        """Return the files by name; raises what making them raises."""
        with self._lock:
            if not self._files or monotonic() - self._made > FRESH_SECONDS:
                self._files = self.make()
                self._made = monotonic()
            return self._files


class ReportHandler(BaseHTTPRequestHandler):
    """Answers GET for the report's files."""

    files: Callable[[], Contents]
    server_version = "vmatrix"
    sys_version = ""

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in NAMES:
            self._answer(403, "text/plain; charset=utf-8", b"use 127.0.0.1 or localhost in the address\n")
            return
        name = self.path.partition("?")[0].removeprefix("/") or "index.html"
        try:
            content = self.files().get(name)
        except VmatrixError as error:
            self._answer(500, "text/plain; charset=utf-8", f"{error.summary}\n{error.hint}\n".encode())
            return
        if content is None:
            self._answer(404, "text/plain; charset=utf-8", b"the report has no such file\n")
            return
        ending = name[name.rfind(".") :] if "." in name else ""
        self._answer(200, KINDS.get(ending, "application/octet-stream"), content)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        for header, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
        }.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing: the terminal is the person's."""
