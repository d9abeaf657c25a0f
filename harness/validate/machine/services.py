"""Prints when each of some Services answers this machine for the first time: asks all of them again and again.

"Answers" means that a TCP connection to the Service's address is accepted, which takes a rule on this machine and a pod
behind it. Times are of this machine's own clock; `began` and `ended` let the harness tell how that differs from its
own.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections.abc import Sequence

PAUSE = 0.02  # seconds between two tries of one Service: the resolution
TRY_SECONDS = 0.25  # without an answer after that, another connection is made: packets without a rule are lost


def asked(host: str, port: int) -> socket.socket:
    """Begin to connect."""
    link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    link.setblocking(False)
    link.connect_ex((host, port))
    return link


def tried(waiting: list[tuple[str, int]], until: float) -> list[tuple[str, int]]:
    """Try all of them once, side by side; return those that accept."""
    accepted = []
    with selectors.DefaultSelector() as selector:
        for address in waiting:
            selector.register(asked(*address), selectors.EVENT_WRITE, address)
        limit = min(until, time.monotonic() + TRY_SECONDS)
        while selector.get_map() and time.monotonic() < limit:
            for key, _ in selector.select(max(0.0, limit - time.monotonic())):
                link = key.fileobj
                selector.unregister(link)
                if isinstance(link, socket.socket):
                    if link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                        accepted.append(key.data)
                    link.close()
            if accepted:
                break
        for key in list((selector.get_map() or {}).values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
    return accepted


def main(argv: Sequence[str]) -> None:
    """Print {"began", "ended", "first": {"HOST:PORT": seconds since the epoch}}.

    Args:
        argv: one JSON object: `services` ([host, port]...), and `seconds` after which it gives up.
    """
    options = json.loads(argv[0])
    waiting = [(host, port) for host, port in options["services"]]
    began, deadline, first = time.time(), time.monotonic() + options["seconds"], {}
    while waiting and time.monotonic() < deadline:
        for host, port in tried(waiting, deadline):
            first[f"{host}:{port}"] = time.time()
            waiting.remove((host, port))
        time.sleep(PAUSE)
    report = {"began": began, "ended": time.time(), "first": first}
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
