"""The part of a kubelet's API that the API server asks for `pods/log`: a launcher's log is its guest's console.

Covers `GET /containerLogs/NAMESPACE/POD/CONTAINER` with `tailLines`. Exec, attach and port-forward are not served. The
console goes with the machine, so a finished pod has no log any more.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

log = logging.getLogger(__name__)
PORT = 10250  # a kubelet's, and what the API server dials when the Node names no other
CONSOLE_CONTAINER = "guest-console-log"
TAIL_CHUNK = 1 << 20  # bytes from a console's end that `tailLines` looks at

# (namespace, pod) -> the file with its guest's console, None when there is none
Console = Callable[[str, str], Path | None]


def serve(host: str, pki: Path, console: Console) -> ThreadingHTTPServer:
    """Serve on a daemon thread; callers need a client certificate of the instance's CA.

    Raises:
        OSError: the port is taken.
    """
    server = ThreadingHTTPServer((host, PORT), _handler(console))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "webhook.crt", pki / "webhook.key")
    context.load_verify_locations(pki / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="kubelet-logs", daemon=True).start()
    return server


def tail(console: Path, lines: int | None) -> bytes:
    """Return the last `lines` lines of a file (of its last MiB), or all of it."""
    if lines is None:
        return console.read_bytes()
    with console.open("rb") as handle:
        handle.seek(max(0, console.stat().st_size - TAIL_CHUNK))
        return b"".join(handle.read().splitlines(keepends=True)[-lines:] if lines else [])


def _handler(console: Console) -> type[BaseHTTPRequestHandler]:
    class LogHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            words = parts.path.strip("/").split("/")
            if len(words) != 4 or words[0] != "containerLogs":
                self._answer(404, b"only containerLogs are served here\n")
                return
            if words[3] != CONSOLE_CONTAINER:  # nothing runs in a launcher's other containers here
                self._answer(200, b"")
                return
            found = console(words[1], words[2])
            if found is None or not found.is_file():
                self._answer(404, f"pod {words[1]}/{words[2]} has no log here\n".encode())
                return
            wanted = parse_qs(parts.query).get("tailLines")
            try:
                self._answer(200, tail(found, int(wanted[0]) if wanted else None))
            except OSError as error:
                self._answer(500, f"{error}\n".encode())

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            log.debug(format, *args)

    return LogHandler
