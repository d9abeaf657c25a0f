"""The OCI registry that guests pull from: the distribution project's, with its storage in a folder, over plain HTTP.

Nobody writes to it: it answers 405 to every request that would. How images get into its storage is in uploads.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts import refs
from harness.artifacts.recipe import Progress, silent
from harness.artifacts.store import Store
from harness.files import write_atomically

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
    return command(address, root, store or Store(), progress, read_only=True)


def command(address: str, root: Path, store: Store, progress: Progress, *, read_only: bool) -> ServiceCommand:
    """Return how to start a registry on a storage, for pulls alone or for uploads."""
    ref = refs.newest(store.catalogue, "registry")
    program = store.obtain(ref.name, ref.version, progress).file("registry")
    root.mkdir(parents=True, exist_ok=True)
    config = root / ("config.yml" if read_only else "config-push.yml")
    text = CONFIG.format(root=root / "storage", secret=SECRET, read_only=str(read_only).lower())
    write_atomically(config, text)
    # The address is the one thing that is not the same for all: a file per address would stay when its registry ends.
    # It reads variables as YAML, to which the brackets of an IPv6 address are a list.
    return ServiceCommand(
        (str(program), "serve", str(config)),
        {"OTEL_TRACES_EXPORTER": "none", "REGISTRY_HTTP_ADDR": json.dumps(address)},
    )
