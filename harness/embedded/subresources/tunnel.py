"""A WebSocket of the subprotocol plain.kubevirt.io with a byte stream behind it: a guest's port, or its console.

Bytes travel in binary messages, both ways at once; the server pings each second and gives up on a client that has said
nothing for a minute. Whichever side ends first, the connection is dropped without a closing frame, as KubeVirt does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from harness.embedded.subresources import answers
from harness.embedded.subresources.streams import Dropped, Stream

log = logging.getLogger(__name__)
SUBPROTOCOL = "plain.kubevirt.io"
PING_SECONDS = 1.0  # as KubeVirt pings
SILENT_SECONDS = 60.0  # without a word from an end that answers pings


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
            raise answers.bad_request("websocket: the client is not using the websocket protocol")
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
