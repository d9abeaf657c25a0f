"""Byte streams behind WebSockets: a guest's port, its console, and one that is cut on request."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import IO, Protocol

from harness.embedded.subresources import answers

CHUNK = 64 * 1024  # bytes; a UDP datagram fits
DIAL_SECONDS = 15.0  # a machine of this host: its kernel accepts or refuses at once, unless a firewall drops
LOOK_SECONDS = 0.1  # between looks at a console's file: what a person does not notice
TYPES = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


class Stream(Protocol):
    """What is behind a WebSocket."""

    async def read(self) -> bytes:
        """Return what comes next; nothing at the end."""

    async def write(self, content: bytes) -> None:
        """Hand on what has come."""

    def close(self) -> None:
        """Let go of it."""


class Port:
    """A guest's port, TCP or UDP."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    async def read(self) -> bytes:
        """Return what the guest sends next; nothing when it has closed."""
        try:
            return await asyncio.get_running_loop().sock_recv(self._socket, CHUNK)
        except ConnectionError:
            return b""

    async def write(self, content: bytes) -> None:
        """Send to the guest."""
        await asyncio.get_running_loop().sock_sendall(self._socket, content)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Dropped(ConnectionError):
    """A connection was cut on request."""


class Dropping:
    """A stream whose connection is cut after so many bytes, either way."""

    def __init__(self, stream: Stream, after_bytes: int) -> None:
        self._stream, self._left = stream, after_bytes

    async def read(self) -> bytes:
        """Return what comes next, unless that was enough: then Dropped is raised."""
        return self._counted(await self._stream.read())

    async def write(self, content: bytes) -> None:
        """Hand on what has come, unless that was enough: then Dropped is raised."""
        await self._stream.write(self._counted(content))

    def close(self) -> None:
        """Let go of the stream."""
        self._stream.close()

    def _counted(self, content: bytes) -> bytes:
        self._left -= len(content)
        if content and self._left < 0:
            raise Dropped(f"after {-self._left} bytes too many")
        return content


async def dial(address: str, port: str, protocol: str) -> Port:
    """Connect to a guest's port.

    Raises:
        StatusError: nobody answers there.
    """
    if not port.isdigit() or not 0 < int(port) < 65536 or protocol not in TYPES:
        raise answers.internal(f"dialing VM: dial {protocol}: address {address}:{port}: invalid port or protocol")
    made = socket.socket(socket.AF_INET, TYPES[protocol])
    made.setblocking(False)
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            await asyncio.get_running_loop().sock_connect(made, (address, int(port)))
        if protocol == "tcp":
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        made.close()
        why = os.strerror(error.errno).lower() if error.errno else "i/o timeout"
        raise answers.internal(f"dialing VM: dial {protocol} {address}:{port}: connect: {why}") from error
    except BaseException:
        made.close()
        raise
    return Port(made)


class Console:
    """What a machine writes to its console from now on; its supervisor appends it to a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    async def read(self) -> bytes:
        """Return what was written next; nothing when the machine, and the file with it, is gone."""
        while not (content := self._file.read(CHUNK)):
            if os.fstat(self._file.fileno()).st_nlink == 0:
                return b""
            await asyncio.sleep(LOOK_SECONDS)
        return content

    async def write(self, content: bytes) -> None:
        """Drop what is typed: machines are started without a keyboard."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def console(path: Path) -> Console:
    """Open the console of a machine where it is now.

    Raises:
        StatusError: the machine has none.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise answers.internal(f"dialing virt-handler: {error.strerror}") from error
    file.seek(0, os.SEEK_END)
    return Console(file)
