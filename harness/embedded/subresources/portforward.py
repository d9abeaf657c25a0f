"""Port-forward and console: a WebSocket of the subprotocol plain.kubevirt.io with a byte stream of the guest behind it.

Bytes travel in binary messages, both ways at once; the server pings each second and gives up on a client that has
said nothing for a minute. Whichever side ends first, the connection is dropped without a closing frame, as
KubeVirt does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from aiohttp import WSMsgType, web

from harness.embedded.subresources import errors

CHUNK = 64 * 1024  # bytes; a UDP datagram fits
DIAL_SECONDS = 15.0  # a machine of this host: its kernel accepts or refuses at once, unless a firewall drops
LOOK_SECONDS = 0.1  # between looks at a console's file: what a person does not notice
TYPES = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
log = logging.getLogger(__name__)
SUBPROTOCOL = "plain.kubevirt.io"
PING_SECONDS = 1.0  # as KubeVirt pings
SILENT_SECONDS = 60.0  # without a word from an end that answers pings


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
        raise errors.internal(f"dialing VM: dial {protocol}: address {address}:{port}: invalid port or protocol")
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
        raise errors.internal(f"dialing VM: dial {protocol} {address}:{port}: connect: {why}") from error
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
        raise errors.internal(f"dialing virt-handler: {error.strerror}") from error
    file.seek(0, os.SEEK_END)
    return Console(file)


@dataclass
class OpenTunnels:
    """The WebSockets that are open; only the server's own loop touches them."""

    _open: set[asyncio.Transport] = field(default_factory=set)

    def cut(self) -> None:
        """Break every connection off, as a network would."""
        for transport in list(self._open):
            transport.abort()

    async def carry(self, request: web.Request, stream: Stream) -> web.WebSocketResponse:
        """Answer a request with a WebSocket, and carry bytes until one side has ended.

        Raises:
            StatusError: it asks for no WebSocket.
        """
        answer = web.WebSocketResponse(protocols=(SUBPROTOCOL,), autoping=False, autoclose=False, compress=False)
        if not answer.can_prepare(request).ok:
            stream.close()
            raise errors.bad_request("websocket: the client is not using the websocket protocol")
        transport = request.transport
        try:
            await answer.prepare(request)
            assert isinstance(transport, asyncio.Transport)  # noqa: S101 - the request has just come over it
            self._open.add(transport)
            await _carry(answer, stream)
        except Dropped:
            assert isinstance(transport, asyncio.Transport)  # noqa: S101 - see above
            transport.abort()
        finally:
            stream.close()
            if isinstance(transport, asyncio.Transport):
                self._open.discard(transport)
                transport.close()  # what was written is still sent
        return answer


async def _carry(answer: web.WebSocketResponse, stream: Stream) -> None:
    """Carry until one side has ended; Dropped is raised when the connection is to be cut."""
    heard = asyncio.Event()
    works = (_to_client(answer, stream), _to_guest(answer, stream, heard), _keep_alive(answer), _watch(heard))
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Dropped):
                raise outcome
            if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                log.debug("a tunnel ended: %r", outcome)


async def _to_client(answer: web.WebSocketResponse, stream: Stream) -> None:
    while content := await stream.read():
        await answer.send_bytes(content)


async def _to_guest(answer: web.WebSocketResponse, stream: Stream, heard: asyncio.Event) -> None:
    while True:
        message = await answer.receive()
        heard.set()
        if message.type in {WSMsgType.BINARY, WSMsgType.TEXT}:
            await stream.write(message.data.encode() if isinstance(message.data, str) else message.data)
        elif message.type == WSMsgType.PING:
            await answer.pong(message.data)
        elif message.type != WSMsgType.PONG:
            return


async def _keep_alive(answer: web.WebSocketResponse) -> None:
    while True:
        await asyncio.sleep(PING_SECONDS)
        await answer.ping(b"keep alive")


async def _watch(heard: asyncio.Event) -> None:
    """Return when nothing has been heard for too long."""
    with contextlib.suppress(TimeoutError):
        while True:
            heard.clear()
            async with asyncio.timeout(SILENT_SECONDS):
                await heard.wait()
