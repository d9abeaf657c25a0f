"""A registry that has one image."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Registry(BaseHTTPRequestHandler):
    """Answers for one image; /v2/broken is an error."""

    def do_HEAD(self) -> None:
        wanted = "application/vnd.oci.image.manifest.v1+json" in self.headers["Accept"]
        there = self.path == "/v2/e2e-test-images/agnhost/manifests/2.63.0" and wanted
        self.send_response(500 if "broken" in self.path else 200 if there else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
