"""How transfers are stopped, and how they fail."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class TransferFailed(Exception):
    """A transfer ended without a disk; the message is the pod's termination message. A retry may succeed."""


class ChecksumMismatch(TransferFailed):
    """The body is not what was asked for; no retry can help."""


class ScratchRequired(Exception):
    """An importer without scratch space has seen that it can import: it ends, and is made anew with a scratch claim."""


class Cancelled(Exception):
    """Somebody stopped the transfer."""


class Cancel:
    """A switch that stops a transfer, also while it waits for the network."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def set(self) -> None:
        """Stop the transfer."""
        self._set.set()
        with self._lock:
            if self._socket is not None:
                _shut(self._socket)

    def check(self) -> None:
        """Raise Cancelled when somebody stopped the transfer."""
        if self._set.is_set():
            raise Cancelled

    def watch(self, connection: socket.socket | None) -> None:
        """Have a socket shut down when the transfer is stopped; None ends that."""
        with self._lock:
            self._socket = connection
            if connection is not None and self._set.is_set():
                _shut(connection)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # it was closed by the other side
        connection.shutdown(socket.SHUT_RDWR)
