"""The part of a kubelet's API that the API server asks for `pods/log` and hands on: logs, and what pods take.

Covers `GET /containerLogs/NAMESPACE/POD/CONTAINER` with `tailLines` and `follow`, where a launcher's log is its guest's
console, and `GET /stats/summary` (node/stats.py). Exec, attach and port-forward are not served. The console goes with
the machine: a finished pod has no log any more, and one that is followed ends.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from harness.kube import https
from harness.kube.client import Json
from harness.kube.https import AnsweringHandler, HttpsServer

PORT = 10250  # a kubelet's, and what the API server dials when the Node names no other
CONSOLE_CONTAINER = "guest-console-log"
TAIL_CHUNK = 1 << 20  # bytes from a console's end that `tailLines` looks at
LOOK_SECONDS = 0.3  # between looks at a console that is followed: what a person takes for at once

# (namespace, pod) -> the file with its guest's console, None when there is none
Console = Callable[[str, str], Path | None]
SUMMARY = ["stats", "summary"]


def serve(host: str, pki: Path, console: Console, summary: Callable[[], Json]) -> HttpsServer:
    """Serve on a daemon thread; callers need a client certificate of the instance's CA.

    Args:
        summary: says what the node and its pods take.

    Raises:
        InfraError: the port is taken.
    """
    server = https.listen(
        (host, PORT),
        partial(LogHandler, console, summary),
        certificate=pki / "webhook.crt",
        key=pki / "webhook.key",
        clients=pki / "ca.crt",
        what="the server of machines' logs",
    )
    threading.Thread(target=server.serve_forever, name="kubelet-logs", daemon=True).start()
    return server


def tail(console: Path, lines: int | None) -> bytes:
    """Return the last `lines` lines of a file (of its last MiB), or all of it."""
    with console.open("rb") as handle:
        _to_last(handle, lines)
        return handle.read()


def growth(console: Path, lines: int | None, listening: Callable[[float], bool]) -> Iterator[bytes]:
    """Yield the last lines of a file, and what comes to it, until it is gone or nobody listens.

    Args:
        listening: waits as many seconds as it is told; False as soon as nobody listens any more.
    """
    with console.open("rb") as handle:
        _to_last(handle, lines)
        while True:
            gone = not console.exists()  # asked before the last look, which sees all of it then
            if os.fstat(handle.fileno()).st_size < handle.tell():
                handle.seek(0)  # another boot began the file anew
            if part := handle.read(TAIL_CHUNK):
                yield part
            elif gone or not listening(LOOK_SECONDS):
                return


def _to_last(handle: BinaryIO, lines: int | None) -> None:
    """Go to where the last `lines` lines of a file begin."""
    if lines is None:
        return
    end = handle.seek(0, os.SEEK_END)
    handle.seek(max(0, end - TAIL_CHUNK))
    wanted = handle.read(end - handle.tell()).splitlines(keepends=True)[-lines:] if lines else []
    handle.seek(end - sum(map(len, wanted)))


class LogHandler(AnsweringHandler):
    """Answers with consoles as a kubelet does with containers' logs, and with its Summary."""

    def __init__(self, console: Console, summary: Callable[[], Json], *connection: Any) -> None:
        self._console = console
        self._summary = summary
        super().__init__(*connection)

    def do_GET(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer with a launcher's log, or with what pods take."""
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        if words == SUMMARY:
            self.answer(200, json.dumps(self._summary()).encode(), "application/json")
            return
        if len(words) != 4 or words[0] != "containerLogs":
            self.answer(404, b"only containerLogs and stats/summary are served here\n", "text/plain")
            return
        if words[3] != CONSOLE_CONTAINER:  # nothing runs in a launcher's other containers here
            self.answer(200, b"", "text/plain")
            return
        found = self._console(words[1], words[2])
        if found is None or not found.is_file():
            self.answer(404, f"pod {words[1]}/{words[2]} has no log here\n".encode(), "text/plain")
            return
        query = parse_qs(parts.query)
        wanted = query.get("tailLines")
        lines = int(wanted[0]) if wanted else None
        if query.get("follow") == ["true"]:
            self._follow(found, lines)
            return
        try:
            self.answer(200, tail(found, lines), "text/plain")
        except OSError as error:
            self.answer(500, f"{error}\n".encode(), "text/plain")

    def _follow(self, console: Path, lines: int | None) -> None:
        """Send a console in chunks as it grows."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        with suppress(FileNotFoundError):  # it has just gone
            for part in growth(console, lines, self._listening):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _listening(self, seconds: float) -> bool:
        """Wait; tell whether the client is still there. It says nothing while it is answered, but for its end."""
        return not select.select([self.connection], [], [], seconds)[0]
