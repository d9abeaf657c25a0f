"""The OCI registry that guests pull from: the distribution project's, with its storage in a folder, over plain HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts import refs
from harness.artifacts.recipe import Progress, silent
from harness.artifacts.store import Store

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
http:
  addr: {address}
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
    """Return how to start the registry; it ends on SIGTERM and keeps its images in `root`.

    Args:
        address: host:port to listen on.
        root: a folder for its storage and its configuration; two instances may share it.
    """
    store = store or Store()
    ref = refs.newest(store.catalogue, "registry")
    program = store.obtain(ref.name, ref.version, progress).file("registry")
    root.mkdir(parents=True, exist_ok=True)
    config = root / f"config-{address.replace(':', '-')}.yml"
    config.write_text(CONFIG.format(root=root / "storage", address=address, secret=SECRET), encoding="utf-8")
    return ServiceCommand((str(program), "serve", str(config)), {"OTEL_TRACES_EXPORTER": "none"})
