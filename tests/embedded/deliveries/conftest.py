"""A host that builds, once for all tests of builds; git servers on ports of this process's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import proc
from harness.artifacts.product.images import crane
from harness.artifacts.store import FILES, Store
from tests.embedded.deliveries.git_servers import Repository
from tests.embedded.deliveries.host import BuildHost, build_host

BUSYBOX = "image/e2e-test-images/busybox"
PUSH_SECONDS = 120.0


@pytest.fixture(scope="module")
def host() -> Iterator[BuildHost]:
    """Return a host with a daemon, a registry that has a base image, and git servers.

    Other users read below its folder; pytest's own folders are for root alone.
    """
    with TemporaryDirectory(prefix="builds-") as temporary, build_host(Path(temporary)) as made:
        store = Store()
        image = store.obtain(BUSYBOX, store.catalogue.versions(BUSYBOX)[0])
        words: list[str | Path] = [crane(store), "push", "--insecure", image.directory / FILES]
        proc.run([*words, f"{made.registry}/busybox:1"], timeout=PUSH_SECONDS)
        made.secret("git", made.servers.https_secret())
        yield made


@pytest.fixture(scope="module")
def repository(host: BuildHost) -> Repository:
    """Return a repository."""
    return Repository.create(host.servers, "app")
