"""A store whose programs come from the release site of the other tests, and a mirror that really serves."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts import mirror
from harness.artifacts.catalogue import Catalogue, architecture
from harness.artifacts.recipe import Source
from harness.artifacts.store import Store
from harness.spec.models import Product
from tests.unit.artifacts.conftest import Site, archive

Get = Callable[[str], bytes]


@pytest.fixture
def store(tmp_path: Path, catalogue: Catalogue, site: Site) -> Store:
    """Return a store that downloads from the release site."""
    for version in ("1.36.3", "1.36.1"):
        for name in ("kubectl", "kubelet"):
            site.offer(f"/k/v{version}/{name}", f"{name} {version}".encode())
    path = f"/e/v3.6.8/etcd-v3.6.8-linux-{architecture()}.tar.gz"
    site.offer(path, archive({f"etcd-v3.6.8/{name}": name.encode() * 40_000 for name in ("etcd", "etcdutl")}))
    site.content["/e/v3.6.8/SHA256SUMS"] = site.content.pop(f"{path}.sha256")
    bases = {"https://dl.example": f"{site.url}/k", "https://hub.example/etcd-io": f"{site.url}/e"}
    return Store(tmp_path / "cache" / "artifacts", Source.RELEASE, catalogue, bases)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return the folder that the mirror serves."""
    return tmp_path / "cache"


@pytest.fixture
def url(cache: Path) -> Iterator[str]:
    """Serve the cache on loopback."""
    with mirror.server("127.0.0.1:0", cache) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def get(url: str) -> bytes:
    """Return what an address serves."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - the test's own server
        content: bytes = answer.read()
        return content


def product(**artifacts: Any) -> Product:
    """Return a product that asks for artifacts."""
    phases = {"deploy": {"playbook": "site.yml"}}
    return Product.model_validate({"name": "p", "directory": ".", "phases": phases, "artifacts": artifacts})


def moment(version: str = "1.36.3", **more: Any) -> dict[str, Any]:
    """Return the variables of a phase."""
    return {"cluster_kubernetes_version": version, **more}
