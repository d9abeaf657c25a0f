"""A local web site that serves disk images, well and badly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Site:
    """A web site: paths and their content. `announce` makes a path promise more bytes than come."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    announce: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)


@pytest.fixture
def site() -> Iterator[Site]:
    """Serve files on loopback until the test ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path in state.files else 404)
            self.end_headers()

        def do_GET(self) -> None:
            state.requests.append(self.path)
            state.logins += [value for value in [self.headers.get("Authorization")] if value]
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(state.announce.get(self.path, len(content))))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Site(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()
