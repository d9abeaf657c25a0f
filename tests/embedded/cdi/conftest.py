"""A namespace for each test, and web sites of disk images on this host, where the importers run too."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.kube.client import Cluster
from harness.kube.resources import NAMESPACE
from tests.contract import images

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Folder:
    """A folder whose files are served."""

    path: Path
    base: str

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{self.base}/{name}"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """Serve a fresh folder."""
    with ThreadingHTTPServer((HOST, 0), partial(_Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield Folder(tmp_path, f"http://{HOST}:{server.server_address[1]}")
        server.shutdown()


@pytest.fixture
def site() -> Iterator[images.Site]:
    """Serve a good image, a slow one, and one that stalls until it is released."""
    with images.serve(HOST) as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Return a fresh namespace; it is deleted after the test, and what was in it goes with it."""
    name = f"cdi-{secrets.token_hex(3)}"
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    cluster.delete(NAMESPACE, name)
