"""A server of this process, as long as a test runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer


def served_by(server: ThreadingHTTPServer) -> Iterator[str]:
    """Yield the address, host:port, at which a server answers."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()
