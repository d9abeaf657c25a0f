"""Whether a server of this host listens, and how long mirrors and registries may take to start and to end."""

from __future__ import annotations

import socket

from harness.until import NotYet

READY_SECONDS = 15.0  # small servers on this host, which may be busy
CONNECT_SECONDS = 1.0  # to one of them, tried again until READY_SECONDS are over
GRACE_SECONDS = 3.0  # for it to end before it is killed


def listens(address: str) -> bool | NotYet:
    """Tell whether a server takes connections at host:port, or why it does not yet."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return NotYet(f"{address}: {error}")
    return True
