"""The OCI registry that guests pull from: the distribution project's, with its storage in a folder, over plain HTTP.

Nobody writes to it: it answers 405 to every request that would. Images get into its storage through a second one that
listens on this host's loopback alone, and only as long as something is pushed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.artifacts import refs
from harness.artifacts.recipe import Progress, silent
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.files import write_atomically
from harness.until import Deadline, NotYet, until

LOOPBACK = "127.0.0.1"
READY_SECONDS = 15.0  # a small server on this host, which may be busy
CONNECT_SECONDS = 1.0  # to it, tried again until READY_SECONDS are over
GRACE_SECONDS = 3.0  # for it to end before it is killed
CONFIG = """\
version: 0.1
log:
  level: error
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: {root}
  cache:
    blobdescriptor: inmemory
  maintenance:
    readonly:
      enabled: {read_only}
http:
  secret: {secret}
"""
# Signs the state of uploads that continue on another replica; there is no other replica and no authentication.
SECRET = "single-replica"  # noqa: S105 - see above


@dataclass(frozen=True)
class ServiceCommand:
    """A service to start: its argument list and the variables to add to its environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def registry_command(
    address: str, root: Path, *, store: Store | None = None, progress: Progress = silent
) -> ServiceCommand:
    """Return how to start the registry, which only reads; it ends on SIGTERM and finds its images in `root`.

    Args:
        address: host:port to listen on.
        root: a folder for its storage and its configuration; two instances may share it.
    """
    return _command(address, root, store or Store(), progress, read_only=True)


def _command(address: str, root: Path, store: Store, progress: Progress, *, read_only: bool) -> ServiceCommand:
    ref = refs.newest(store.catalogue, "registry")
    program = store.obtain(ref.name, ref.version, progress).file("registry")
    root.mkdir(parents=True, exist_ok=True)
    config = root / ("config.yml" if read_only else "config-push.yml")
    text = CONFIG.format(root=root / "storage", secret=SECRET, read_only=str(read_only).lower())
    write_atomically(config, text)
    # The address is the one thing that is not the same for all: a file per address would stay when its registry ends.
    return ServiceCommand(
        (str(program), "serve", str(config)), {"OTEL_TRACES_EXPORTER": "none", "REGISTRY_HTTP_ADDR": address}
    )


@contextmanager
def writable(root: Path, store: Store) -> Iterator[str]:
    """Run a registry that takes uploads into `root` as long as the body runs; give its address on the loopback.

    It ends with this process, even a killed one.

    Raises:
        InfraError: it does not answer.
    """
    address = f"{LOOPBACK}:{_free_port()}"
    command = _command(address, root, store, silent, read_only=False)
    log = root / "push.log"
    service = proc.spawn([*proc.ending_with_us(), *command.argv], log=log, env=command.env)
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
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return NotYet(f"{address}: {error}")
    return True
