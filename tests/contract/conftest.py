"""What the contract tests run against: any infra API by `--kubeconfig`, or an embedded one of their own."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.cell.manifests import GoldenImage
from harness.kube.client import Cluster
from harness.kube.resources import NAMESPACE
from harness.until import Deadline, NotYet, until
from tests.contract import images
from tests.contract.reach import embedded, existing
from tests.contract.streams import Watcher

GONE_SECONDS = 40.0


@dataclass(frozen=True)
class Infra:
    """The infra API under test, the address at which its importers reach this host, and a disk image that boots."""

    cluster: Cluster
    kubeconfig: Path
    host_address: str
    boot_image: Callable[[], GoldenImage]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the caller name the infra cluster."""
    parser.addoption("--kubeconfig", dest="contract_kubeconfig", type=Path, help="run against this cluster; without it an embedded one is made")
    parser.addoption("--host-address", help="where importers reach this host (default: the way to the API's host)")
    parser.addoption("--image", help="the image of matrix/images.yml that machines boot (default: one that fits)")


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker of the tests that need machines."""
    config.addinivalue_line("markers", "machines: needs machines that boot, not the API alone")


@pytest.fixture(scope="session")
def infra(request: pytest.FixtureRequest) -> Iterator[Infra]:
    """Return the infra API; an embedded one is taken down at the end."""
    given: Path | None = request.config.getoption("contract_kubeconfig")
    address: str | None = request.config.getoption("--host-address")
    image: str | None = request.config.getoption("--image")
    with existing(given, image) if given is not None else embedded(image) as reached:
        cluster = Cluster.from_kubeconfig(reached.kubeconfig)
        yield Infra(cluster, reached.kubeconfig, address or _way_to(cluster.server), reached.boot_image)


def _way_to(url: str) -> str:
    """Return this host's own address on the way to a URL's host."""
    target = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((target.hostname or "", target.port or 443))  # sends nothing: only the route is looked up
        return str(probe.getsockname()[0])


@pytest.fixture(scope="session")
def cluster(infra: Infra) -> Cluster:
    """Return the client of the infra API."""
    return infra.cluster


@pytest.fixture(scope="session")
def site(infra: Infra) -> Iterator[images.Site]:
    """Serve disk images, good and bad, where importers reach them."""
    with images.serve(infra.host_address) as running:
        yield running


@contextmanager
def fresh_namespace(cluster: Cluster) -> Iterator[str]:
    """Make a namespace; at the end it and everything in it has to go within GONE_SECONDS."""
    name = f"contract-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    cluster.create(NAMESPACE, body)
    try:
        yield name
    finally:
        cluster.delete(NAMESPACE, name)
    until(
        lambda: _gone(cluster, name),
        deadline=Deadline.after(GONE_SECONDS),
        what=f"namespace {name} is gone",
        interval=0.2,
    )


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Return a fresh namespace; it and everything in it is gone when the test is over."""
    with fresh_namespace(cluster) as name:
        yield name


@pytest.fixture
def other_namespace(cluster: Cluster) -> Iterator[str]:
    """Return a second fresh namespace."""
    with fresh_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def quiet_namespace(cluster: Cluster) -> Iterator[str]:
    """Return a namespace that a module's dry runs share: nothing is ever stored in it."""
    with fresh_namespace(cluster) as name:
        yield name


def _gone(cluster: Cluster, name: str) -> bool | NotYet:
    found = cluster.get(NAMESPACE, name)
    if found is None:
        return True
    conditions = (found.get("status") or {}).get("conditions") or []
    return NotYet("; ".join(c["message"] for c in conditions if c["status"] == "True") or "it is still there")


@pytest.fixture
def watcher(cluster: Cluster, namespace: str) -> Iterator[Watcher]:
    """Watch the namespace from before anything is in it."""
    running = Watcher(cluster, namespace).start()
    yield running
    running.stop()
    assert not running.broken, running.broken
