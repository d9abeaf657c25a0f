"""A relay to an API server that can be cut and mended, as a network between two clusters."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

CHUNK = 65536
ACCEPT_SECONDS = 0.2  # until a relay that is closed notices


class Relay:
    """Listens on the loopback and carries to a server, unless it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._whole = True
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(ACCEPT_SECONDS)
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"https://127.0.0.1:{self._server.getsockname()[1]}"

    def cut(self) -> None:
        """Break all connections, and take no more."""
        with self._lock:
            self._whole = False
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def mend(self) -> None:
        """Take connections again."""
        with self._lock:
            self._whole = True

    def close(self) -> None:
        """End."""
        self.cut()
        self._closed.set()

    def _accept(self) -> None:
        with self._server:
            while not self._closed.is_set():
                with suppress(TimeoutError):
                    client, _ = self._server.accept()
                    self._carry(client)

    def _carry(self, client: socket.socket) -> None:
        with self._lock:
            if not self._whole:
                client.close()
                return
            client.settimeout(None)
            server = socket.create_connection(self._target)
            self._open += [client, server]
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=_copy, args=(source, sink), name="relayed", daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(CHUNK):
            sink.sendall(content)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    source.close()
