"""Prints how long a machine takes for fixed work: of one CPU, of the disk with fsync, of its own TCP.

The network's work stays within the machine: what is between machines belongs to the cluster's figures. Each work is
done several times and the median counts, so that a moment's disturbance does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence

CPU_BYTES, CPU_ROUNDS = 1 << 20, 24
DISK_BYTES, DISK_WRITES = 4096, 16
NETWORK_BYTES, CHUNK = 64 << 20, 1 << 18


def cpu() -> float:
    """Return the seconds that SHA-256 takes for a fixed amount."""
    block = bytes(CPU_BYTES)
    began = time.perf_counter()
    for _ in range(CPU_ROUNDS):
        hashlib.sha256(block).digest()
    return time.perf_counter() - began


def disk(folder: str) -> float:
    """Return the seconds that one small write with fsync takes, on the file system of a folder."""
    with tempfile.TemporaryFile(dir=folder) as file:
        began = time.perf_counter()
        for _ in range(DISK_WRITES):
            file.write(bytes(DISK_BYTES))
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - began) / DISK_WRITES


def network() -> float:
    """Return the seconds that a fixed amount takes from one of this machine's sockets to another."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send, args=(server.getsockname()[1],))
        sender.start()
        link, _ = server.accept()
        began, got = time.perf_counter(), 0
        with link:
            while chunk := link.recv(CHUNK):
                got += len(chunk)
        took = time.perf_counter() - began
        sender.join()
    if got != NETWORK_BYTES:
        raise OSError(f"{got} of {NETWORK_BYTES} bytes arrived")
    return took


def send(port: int) -> None:
    """Send the fixed amount to a port of this machine."""
    block = bytes(CHUNK)
    with socket.create_connection(("127.0.0.1", port)) as link:
        for _ in range(NETWORK_BYTES // CHUNK):
            link.sendall(block)


def middle(work: Callable[[], float], rounds: int) -> float:
    """Return the median of so many rounds (an odd number)."""
    return sorted(work() for _ in range(rounds))[rounds // 2]


def main(argv: Sequence[str]) -> None:
    """Print the seconds of each work.

    Args:
        argv: one JSON object: `rounds`, and `folder` on the disk that counts; its nearest parent that exists is used.
    """
    options = json.loads(argv[0])
    folder = options["folder"]
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    rounds = options["rounds"]
    seconds = {"cpu": middle(cpu, rounds), "disk": middle(lambda: disk(folder), rounds)}
    print(json.dumps({**seconds, "network": middle(network, rounds)}))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
