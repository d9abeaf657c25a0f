"""How images get into a registry's storage: through a second one on this host's loopback, as long as that takes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import proc
from harness.artifacts.listening import GRACE_SECONDS, READY_SECONDS, listens
from harness.artifacts.recipe import silent
from harness.artifacts.registry import command
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until

LOOPBACK = "127.0.0.1"


@contextmanager
def writable(root: Path, store: Store) -> Iterator[str]:
    """Run a registry that takes uploads into `root` as long as the body runs; give its address on the loopback.

    It ends with this process, even a killed one.

    Raises:
        InfraError: it does not answer.
    """
    address = f"{LOOPBACK}:{_free_port()}"
    start = command(address, root, store, silent, read_only=False)
    log = root / "push.log"
    service = proc.spawn([*proc.ending_with_us(), *start.argv], log=log, env=start.env)
    try:
        ready = Deadline.after(READY_SECONDS)
        until(lambda: _answers(service, address, log), deadline=ready, what="a registry to push to")
        yield address
    finally:
        service.stop(grace=GRACE_SECONDS)


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as probe:
        return int(probe.getsockname()[1])


def _answers(service: proc.Service, address: str, log: Path) -> bool | NotYet:
    if not service.alive():
        raise InfraError(f"the registry to push to ended at once; it was to listen on {address}", paths=[log])
    return listens(address)
