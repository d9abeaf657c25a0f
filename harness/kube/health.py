"""What a program in a pod answers to whoever asks how it is: /healthz, /readyz, /metrics, over plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.errors import BadInput

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Health:
    """What is asked: what ails the process and what it still waits for ("": nothing), and its metrics."""

    ails: Callable[[], str]
    waits: Callable[[], str]
    metrics: Callable[[], str]


@contextmanager
def health_served(health: Health, port: int, host: str = "", *, hint: str) -> Iterator[int]:
    """Answer on a port (0: any free one) meanwhile, from a thread of its own; yield the port.

    Args:
        hint: how another port is chosen.

    Raises:
        BadInput: the port cannot be had.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            """Answer."""
            if self.path == "/metrics":
                self._say(HTTPStatus.OK, health.metrics(), METRICS_TYPE)
            elif self.path in ("/healthz", "/readyz"):
                trouble = health.ails() or (health.waits() if self.path == "/readyz" else "")
                self._say(HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK, (trouble or "ok") + "\n")
            else:
                self._say(HTTPStatus.NOT_FOUND, "there are /healthz, /readyz and /metrics\n")

        def _say(self, status: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep probes out of the log."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise BadInput(f"cannot listen on port {port}: {error.strerror}", hint=hint) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
