"""A TLS passthrough by SNI, which stands in for an Ingress controller or a Gateway in front of an infra cluster.

    python edge.py PORT NAME=ADDRESS:PORT [NAME=ADDRESS:PORT ...]

It imports nothing but the standard library: it runs in another network namespace.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

RECORD_BYTES, HANDSHAKE, SERVER_NAME = 5, 22, 0
CHUNK = 65536
ANYWHERE = "0.0.0.0"  # noqa: S104 - within a network namespace of a test


def server_name(hello: bytes) -> str:
    """Return the name that a ClientHello asks for (RFC 8446, 4.1.2; RFC 6066, 3), "" where it names none.

    hello: the content of the TLS record.
    """
    place = 4 + 2 + 32  # the handshake's head, the version, the random
    place += 1 + hello[place]  # the session
    place += 2 + int.from_bytes(hello[place : place + 2])  # the ciphers
    place += 1 + hello[place]  # the compressions
    end = place + 2 + int.from_bytes(hello[place : place + 2])
    place += 2
    while place + 4 <= end:
        kind, size = int.from_bytes(hello[place : place + 2]), int.from_bytes(hello[place + 2 : place + 4])
        if kind == SERVER_NAME:
            return hello[place + 4 + 5 : place + 4 + size].decode("ascii")
        place += 4 + size
    return ""


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on all that comes."""
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()


def passing(routes: dict[str, tuple[str, int]]) -> object:
    """Return what serves one connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readexactly(RECORD_BYTES)
            hello = await reader.readexactly(int.from_bytes(head[3:5]))
            to_reader, to_writer = await asyncio.open_connection(*routes[server_name(hello)])
        except (OSError, asyncio.IncompleteReadError, KeyError):
            writer.close()
            return
        to_writer.write(head + hello)
        await asyncio.gather(copy(reader, to_writer), copy(to_reader, writer))

    return serve


async def main(port: int, *words: str) -> None:
    """Serve."""
    routes = {}
    for word in words:
        name, _, where = word.partition("=")
        address, _, number = where.rpartition(":")
        routes[name] = (address, int(number))
    async with await asyncio.start_server(passing(routes), ANYWHERE, port) as server:  # type: ignore[arg-type]
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
