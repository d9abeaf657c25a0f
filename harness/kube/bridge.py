"""Carry bytes between a WebSocket and two file descriptors, until one side has ended or the connection is lost.

A lost connection is told from one that has ended: the bytes on their way are gone, and whoever waited for them must be
told whose fault that is. Nothing is resumed; a new connection is a new tunnel.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from enum import Enum
from typing import Any

import websocket

from harness.errors import InfraRetriable

CHUNK = 64 * 1024  # bytes
MOST_UNTAKEN = 1 << 20  # bytes
PING_SECONDS = 5.0  # so that a connection that is idle is told from one that is lost
SILENT_SECONDS = 30.0  # KubeVirt pings each second, and answers pings
GRACE_MS = 500  # between the machine's end and ours, when a connection is closed by both
GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Cut(InfraRetriable):
    """A connection through the API was lost while both of its ends were still there."""


class End(Enum):
    """Who ended a connection: we, or the machine."""

    OURS = "ours"
    MACHINE = "machine"


def bridge(tunnel: websocket.WebSocket, source: int, sink: int) -> End:
    """Carry bytes both ways until one side has ended. Closes the tunnel; the caller closes the other side.

    Args:
        source, sink: file descriptors, blocking: what is read from one goes to the machine, what comes from there goes
            to the other. They may be the same, of a socket.

    Raises:
        Cut: the connection was lost.
    """
    carrying = _Bridge(tunnel, source, sink)
    try:
        end = carrying.carry()
        tunnel.send_close()
        return end
    except (websocket.WebSocketException, OSError) as error:
        with suppress(OSError):
            carrying.hand_over()
        if _ended(source, sink, GRACE_MS):
            return End.OURS
        raise Cut(f"the connection through the Kubernetes API was lost: {error or type(error).__name__}") from error
    finally:
        tunnel.shutdown()  # type: ignore[no-untyped-call]


def _ended(source: int, sink: int, milliseconds: int) -> bool:
    """Tell whether our own side has gone: nothing more to read, or nobody who reads."""
    poller = select.poll()
    poller.register(source, select.POLLIN)
    poller.register(sink, select.POLLIN if sink == source else 0)
    for descriptor, event in poller.poll(milliseconds):
        if event & GONE or (descriptor == source and not os.read(source, CHUNK)):
            return True
    return False


class _Bridge:
    """One tunnel with two descriptors: waits for whichever has something, or takes something.

    What comes from the machine waits here until it is taken, so that a reader who is slow holds up nothing but itself.
    """

    def __init__(self, tunnel: websocket.WebSocket, source: int, sink: int) -> None:
        self._tunnel, self._source, self._sink = tunnel, source, sink
        self._socket: int = tunnel.fileno()  # type: ignore[no-untyped-call]
        self._heard = self._pinged = time.monotonic()
        self._untaken = bytearray()
        self._poller = select.poll()

    def carry(self) -> End:
        """Carry until the end."""
        while True:
            room = len(self._untaken) < MOST_UNTAKEN
            waiting = room and self._decrypted()
            ready = self._wait(0 if waiting else PING_SECONDS, room=room)
            if (waiting or self._socket in ready) and not self._receive():
                self.hand_over()
                return End.MACHINE
            if ready.get(self._source, 0) & (select.POLLIN | GONE) and not self._send():
                return End.OURS
            if ready.get(self._sink, 0) & GONE and self._sink != self._source:
                return End.OURS
            if ready.get(self._sink, 0) & select.POLLOUT:
                self._write()
            self._keep_alive()

    def _wait(self, seconds: float, *, room: bool) -> dict[int, int]:
        """Return what there is to do, by descriptor; `room`: whether more may come from the machine."""
        wanted = {self._source: select.POLLIN}
        wanted[self._sink] = wanted.get(self._sink, 0) | (select.POLLOUT if self._untaken else 0)
        for descriptor, events in wanted.items():
            self._poller.register(descriptor, events)
        self._poller.register(self._socket, select.POLLIN if room else 0)
        return dict(self._poller.poll(seconds * 1000))

    def _decrypted(self) -> bool:
        """Tell whether bytes wait in TLS, where poll does not see them."""
        secured: Any = self._tunnel.sock
        inner = getattr(secured, "sslobj", None)  # of TLS by a proxy that is itself spoken to by TLS
        if inner is not None:
            return bool(inner.pending() or secured.incoming.pending)
        pending = getattr(secured, "pending", None)
        return pending is not None and pending() > 0

    def _write(self) -> None:
        taken = os.write(self._sink, self._untaken[: select.PIPE_BUF])  # so much is taken without waiting
        del self._untaken[:taken]

    def hand_over(self) -> None:
        """Write what is left at the end."""
        while self._untaken:
            self._write()

    def _receive(self) -> bool:
        opcode, content = self._tunnel.recv_data(control_frame=True)
        self._heard = time.monotonic()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return False
        if opcode in {websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT}:
            self._untaken += content
        return True

    def _send(self) -> bool:
        content = os.read(self._source, CHUNK)
        if content:
            self._tunnel.send_binary(content)
        return bool(content)

    def _keep_alive(self) -> None:
        now = time.monotonic()
        if now - self._heard > SILENT_SECONDS:
            raise websocket.WebSocketTimeoutException(f"nothing was heard for {SILENT_SECONDS:.0f} s")
        if now - self._pinged > PING_SECONDS:
            self._pinged = now
            self._tunnel.ping()
