"""The KubeVirt part of the embedded infrastructure, a disk image in it, and machines from that."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import providers
from harness.embedded.machines import Machines as Host
from harness.infra.host.layout import load_record
from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, NAMESPACE, VM
from harness.machines.kubevirt.manifests import GOLDEN_NAMESPACE, GoldenImage, golden
from harness.machines.reach.ssh import close_connections
from harness.paths import project_dir
from harness.providers.embedded import EmbeddedProvider
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, until
from tests.contract.machines import Machines
from tests.contract.storage import default_storage
from tests.contract.volumes import wait_gone, wait_phase
from tests.embedded.kubevirt.part import Part

IMAGE = "debian-13"
IMPORT_SECONDS = 300.0
WAIT_SECONDS = 60.0


@pytest.fixture(scope="session")
def part(infra: EmbeddedProvider) -> Part:
    """Return the KubeVirt part."""
    return Part(infra)


@pytest.fixture(scope="session")
def host(infra: EmbeddedProvider) -> Host:
    """Return what is on the host of the instance's machines."""
    found = load_record(infra.layout)
    assert found is not None
    return Host(infra.layout.root, found.index)


@pytest.fixture(scope="session")
def image(infra: EmbeddedProvider, cluster: Cluster) -> GoldenImage:
    """Have a disk image imported once."""
    found = providers.golden_image(Settings(), IMAGE, infra.mirror(), progress=lambda _line: None)
    cluster.ensure(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GOLDEN_NAMESPACE}})
    cluster.ensure(DATA_VOLUME, golden(found, labels={}, storage_class=None, directory=project_dir() / "vm-templates"))
    wait_phase(cluster, GOLDEN_NAMESPACE, found.name, "Succeeded", seconds=IMPORT_SECONDS)
    return found


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Return a fresh namespace; it and everything in it is gone when the test is over."""
    name = f"kubevirt-{secrets.token_hex(3)}"
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    cluster.delete(NAMESPACE, name)
    until(
        lambda: NotYet("it is there") if cluster.get(NAMESPACE, name) else True,
        deadline=Deadline.after(WAIT_SECONDS),
        what=f"namespace {name} to be gone",
        interval=0.1,
    )


@pytest.fixture
def machines(
    infra: EmbeddedProvider, cluster: Cluster, part: Part, namespace: str, image: GoldenImage, tmp_path: Path
) -> Iterator[Machines]:
    """Return what makes machines in the test's namespace; they are gone, and the KubeVirt part runs, after the test.

    SSH's control sockets want a short path.
    """
    control = Path(tempfile.mkdtemp(prefix="ctr-"))
    yield Machines(cluster, namespace, image, tmp_path / "key", control, infra.kubeconfig(), default_storage(cluster))
    close_connections(control)
    part.start()
    for vm in cluster.list(VM, namespace).items:
        cluster.delete(VM, vm["metadata"]["name"], namespace)
        wait_gone(cluster, VM, namespace, vm["metadata"]["name"])


@pytest.fixture
def wait() -> Callable[[Callable[[], object], str], object]:
    """Return a wait for something to become true."""

    def waiting(probe: Callable[[], object], what: str) -> object:
        return until(
            lambda: probe() or NotYet("not yet"), deadline=Deadline.after(WAIT_SECONDS), what=what, interval=0.05
        )

    return waiting
