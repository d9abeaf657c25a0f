"""An embedded infrastructure whose API can be put in trouble, and whose KubeVirt and CDI fail on request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.cell.existing import CellSelector, find
from harness.cell.teardown import reap
from harness.kube import Cluster
from harness.kube.resources import DATA_VOLUME, PV
from harness.machines.kubevirt.manifests import GOLDEN_NAMESPACE, GoldenImage
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.chaos.cells import Ground, tiny_image
from tests.chaos.front import Front, in_front
from tests.embedded.conftest import _sweep_orphans, cluster, infra

__all__ = ["_sweep_orphans", "cluster", "infra"]
TEARDOWN_SECONDS = 60.0


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark that ties a test to a row of docs/chaos.md."""
    config.addinivalue_line("markers", "row(*rows): rows of docs/chaos.md that a test is about")


@pytest.fixture(scope="session")
def _proxied(infra: EmbeddedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Front, Path]]:
    with in_front(infra.kubeconfig(), tmp_path_factory.mktemp("front")) as running:
        yield running


@pytest.fixture
def front(_proxied: tuple[Front, Path]) -> Iterator[Front]:
    """Return the proxy before the API server, without troubles; those of the test end with it."""
    found, _ = _proxied
    found.troubles, found.seen = [], []
    found.thawed.clear()
    yield found
    found.troubles = []
    found.thawed.set()


@pytest.fixture
def kubeconfig(_proxied: tuple[Front, Path]) -> Path:
    """Return a kubeconfig that leads through the proxy."""
    return _proxied[1]


@pytest.fixture
def infra_ca(infra: EmbeddedProvider) -> str:
    """Return the API server's own authority, as a kubeconfig has it."""
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    return str(config["clusters"][0]["cluster"]["certificate-authority-data"])


@pytest.fixture(scope="session")
def _image(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoldenImage]:
    with tiny_image(tmp_path_factory.mktemp("images")) as served:
        yield served
        for volume in cluster.list(DATA_VOLUME, GOLDEN_NAMESPACE).items:
            cluster.delete(DATA_VOLUME, volume["metadata"]["name"], GOLDEN_NAMESPACE)


@pytest.fixture
def ground(infra: EmbeddedProvider, cluster: Cluster, _image: GoldenImage, tmp_path: Path) -> Iterator[Ground]:
    """Return the infrastructure for cells that fail; whatever the test did, no cell is left and no disk of one."""
    found = Ground(infra, cluster, _image, tmp_path)
    (infra.layout.root / "faults.yml").unlink(missing_ok=True)
    yield found
    (infra.layout.root / "faults.yml").unlink(missing_ok=True)
    reap(cluster, CellSelector(), seconds=TEARDOWN_SECONDS)
    assert find(cluster, CellSelector()) == []
    until(
        lambda: NotYet("disks are left") if _disks_of_cells(cluster) else True,
        deadline=Deadline.after(TEARDOWN_SECONDS),
        what="the disks of cells to be gone",
    )


def _disks_of_cells(cluster: Cluster) -> list[str]:
    claims = [(v["metadata"]["name"], v["spec"].get("claimRef") or {}) for v in cluster.list(PV).items]
    return [name for name, claim in claims if claim.get("namespace") != GOLDEN_NAMESPACE]
