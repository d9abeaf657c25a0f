"""Asks an API server again and again, a new connection each time; prints a line for each answer.

    python asking.py ADDRESS PORT NAME CA CERTIFICATE KEY

It imports nothing but the standard library: it runs in another network namespace.
"""

from __future__ import annotations

import socket
import ssl
import sys
import time

SECONDS, PAUSE = 2.0, 0.25
REQUEST = "GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"


def main(address: str, port: int, name: str, *files: str) -> None:
    """Ask, for ever."""
    authority, certificate, key = files
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key)
    while True:
        try:
            with (
                socket.create_connection((address, port), timeout=SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=name) as stream,
            ):
                stream.sendall(REQUEST.format(name).encode())
                said = stream.recv(64).partition(b"\r\n")[0].decode()
        except OSError as error:
            said = str(error)
        print(f"{time.monotonic():.2f} {said}", flush=True)  # noqa: T201 - for the test that started it
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
