"""Listen addresses of servers on this host: validate and probe them; how long a server may take to start and to end."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from harness.errors import BadInput
from harness.until import NotYet
from harness.urls import wrong_address

READY_SECONDS = 15.0  # small servers on this host, which may be busy
CONNECT_SECONDS = 1.0  # to one of them, tried again until READY_SECONDS are over
LOOPBACK = "127.0.0.1"
GRACE_SECONDS = 3.0  # for it to end before it is killed


def listens(address: str) -> bool | NotYet:
    """Tell whether a server takes connections at host:port, or why it does not yet."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return NotYet(f"{address}: {error}")
    return True


def free_port() -> int:
    """Return a port of the loopback that nobody listens on now."""
    with socket.create_server((LOOPBACK, 0)) as probe:
        return int(probe.getsockname()[1])


def refuse_wrong(addresses: Mapping[str, str]) -> None:
    """Refuse addresses, by the options that name them, at which nothing can listen, whatever this host has."""
    for option, address in addresses.items():
        if wrong := wrong_address(address):
            raise BadInput(f"{option} {address!r}: {wrong}", hint=f"for example {option} 127.0.0.1:8080")
    if len(set(addresses.values())) < len(addresses):
        raise BadInput(f"{' and '.join(addresses)} are the same address", hint="give them different ports")


def refuse_taken(addresses: Mapping[str, str]) -> None:
    """Refuse addresses at which this host cannot listen now: they are not its own, or taken, or not this user's."""
    for option, address in addresses.items():
        host, _, port = address.rpartition(":")
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[
                0
            ]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
        except OSError as error:
            raise BadInput(
                f"{option} {address}: this host cannot listen there: {error.strerror}",
                hint=f"`ip address` shows this host's addresses, `ss -ltnp sport = :{port}` who listens at a port",
            ) from error
