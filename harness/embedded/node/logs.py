"""The part of a kubelet's API that the API server asks for `pods/log`: a launcher's log is its guest's console.

Covers `GET /containerLogs/NAMESPACE/POD/CONTAINER` with `tailLines`. Exec, attach and port-forward are not served. The
console goes with the machine, so a finished pod has no log any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.kube import https
from harness.kube.https import AnsweringHandler, HttpsServer

PORT = 10250  # a kubelet's, and what the API server dials when the Node names no other
CONSOLE_CONTAINER = "guest-console-log"
TAIL_CHUNK = 1 << 20  # bytes from a console's end that `tailLines` looks at

# (namespace, pod) -> the file with its guest's console, None when there is none
Console = Callable[[str, str], Path | None]


def serve(host: str, pki: Path, console: Console) -> HttpsServer:
    """Serve on a daemon thread; callers need a client certificate of the instance's CA.

    Raises:
        InfraError: the port is taken.
    """
    server = https.listen(
        (host, PORT),
        partial(LogHandler, console),
        certificate=pki / "webhook.crt",
        key=pki / "webhook.key",
        clients=pki / "ca.crt",
        what="the server of machines' logs",
    )
    threading.Thread(target=server.serve_forever, name="kubelet-logs", daemon=True).start()
    return server


def tail(console: Path, lines: int | None) -> bytes:
    """Return the last `lines` lines of a file (of its last MiB), or all of it."""
    if lines is None:
        return console.read_bytes()
    with console.open("rb") as handle:
        handle.seek(max(0, console.stat().st_size - TAIL_CHUNK))
        return b"".join(handle.read().splitlines(keepends=True)[-lines:] if lines else [])


class LogHandler(AnsweringHandler):
    """Answers with consoles as a kubelet does with containers' logs."""

    def __init__(self, console: Console, *connection: Any) -> None:
        self._console = console
        super().__init__(*connection)

    def do_GET(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer with a launcher's log."""
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        if len(words) != 4 or words[0] != "containerLogs":
            self.answer(404, b"only containerLogs are served here\n", "text/plain")
            return
        if words[3] != CONSOLE_CONTAINER:  # nothing runs in a launcher's other containers here
            self.answer(200, b"", "text/plain")
            return
        found = self._console(words[1], words[2])
        if found is None or not found.is_file():
            self.answer(404, f"pod {words[1]}/{words[2]} has no log here\n".encode(), "text/plain")
            return
        wanted = parse_qs(parts.query).get("tailLines")
        try:
            self.answer(200, tail(found, int(wanted[0]) if wanted else None), "text/plain")
        except OSError as error:
            self.answer(500, f"{error}\n".encode(), "text/plain")
