"""A socket that listens in another network namespace of this host, so that a server here is in reach from there."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from concurrent.futures import Future
from pathlib import Path

from harness.embedded.machines.names import PODS_NETWORK, Names
from harness.kube.client import Cluster
from harness.kube.resources import NODE
from harness.providers.embedded import EmbeddedProvider

CLONE_NEWNET = 0x40000000  # setns(2)
NETNS = Path("/run/netns")
SECONDS = 10.0  # against hanging
BACKLOG = 128


def listening_for_pods(infra: EmbeddedProvider, cluster: Cluster) -> socket.socket:
    """Listen at the address of the machine that runs an infra cluster's pods: for them, and for this host.

    Machines reach no port of this host but the mirror's, the registry's and the API's; this one is the machine's own.
    """
    node = cluster.get(NODE, infra.layout.pods_node)
    assert node is not None, "the instance runs no pods"
    (address,) = (a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
    (netns,) = NETNS.glob(f"{Names(infra.host.index()).bridge_netns(PODS_NETWORK)}-*")
    return listening(netns, address)


def listening(netns: Path, address: str) -> socket.socket:
    """Listen on a free port of an address of a network namespace: a socket stays in the one where it was made."""
    made: Future[socket.socket] = Future()

    def make() -> None:
        try:
            _enter(netns)
            made.set_result(socket.create_server((address, 0), backlog=BACKLOG))
        except OSError as error:
            made.set_exception(error)

    thread = threading.Thread(target=make, name="network namespace")  # ends, and with it the stay in there
    thread.start()
    thread.join(SECONDS)
    return made.result(SECONDS)


def _enter(netns: Path) -> None:
    """Move the calling thread, and it alone, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with netns.open("rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(netns))
