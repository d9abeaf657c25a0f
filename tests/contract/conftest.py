"""What the contract tests run against: any infra API by `--kubeconfig`, or an embedded one of their own."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, NAMESPACE
from harness.machines.kubevirt.manifests import GOLDEN_NAMESPACE, GoldenImage, golden
from harness.machines.reach.ssh import close_connections
from harness.model import Access, Mirror
from harness.paths import project_dir
from harness.until import NotYet, until
from tests.contract import images, limits
from tests.contract.host_address import host_address
from tests.contract.job import KUBECONFIG, let_in, make_namespace
from tests.contract.limits import within
from tests.contract.machines import Machines
from tests.contract.reach import embedded, existing
from tests.contract.storage import Storage, bindings, default_storage, storage_of
from tests.contract.streams import Watcher
from tests.contract.volumes import Disk, datavolume, wait_phase

IMPORT_SECONDS = 300.0  # of a disk image that boots
GONE_SECONDS = 60.0  # for all of them together
MIRROR = ("--mirror", "--registry", "--mirror-ipv6", "--registry-ipv6")


@dataclass(frozen=True)
class Infra:
    """The infra API under test, the address at which its importers reach this host, and a disk image that boots.

    admin: its owner's client. The harness's own calls are made with a job's (see the fixture `cluster`).
    mirror: what guests read from; without addresses where the caller named none.
    pulls: the registry that guests pull deliveries from, HOST:PORT; "" without one.
    """

    admin: Cluster
    kubeconfig: Path
    host_address: str
    boot_image: Callable[[], GoldenImage]
    mirror: Mirror
    pulls: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the caller tell how the infra cluster is reached, and which image its machines boot."""
    parser.addoption(
        "--host-address",
        help="where importers reach this host (default: the instance's address, or the way to the API's host)",
    )
    parser.addoption("--image", help="the image of matrix/images.yml that machines boot (default: one that fits)")
    parser.addoption("--pods", action="store_true", help="have the tests' own embedded instance run pods as well")
    parser.addoption("--mirror", help="URL of a mirror that serves built images, for use with --kubeconfig")
    parser.addoption("--registry", help="address of a registry that serves images, for use with --kubeconfig")
    parser.addoption("--mirror-ipv6", help="the mirror's URL for guests that have an IPv6 address, if it has one")
    parser.addoption("--registry-ipv6", help="the registry's address for such guests")
    parser.addoption(
        "--pulls", default="", help="address of a registry that guests pull deliveries from, if it has one"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Stretch the limits."""
    limits.configure(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse an address at which importers cannot reach this host, before anything is made."""
    given: str | None = session.config.getoption("--kubeconfig")
    if given is not None and session.config.getoption("--pods"):
        raise pytest.UsageError("--pods is for an instance of the tests' own, not for the cluster of --kubeconfig")
    if given is not None and not session.config.getoption("collectonly"):
        try:
            host_address(Path(given), session.config.getoption("--host-address"))
        except BadInput as refused:
            raise pytest.UsageError(f"{refused}: {refused.hint}") from refused


@pytest.fixture(scope="session")
def infra(request: pytest.FixtureRequest) -> Iterator[Infra]:
    """Return the infra API; an embedded one is taken down at the end."""
    given: str | None = request.config.getoption("--kubeconfig")  # the plugin's own
    address: str | None = request.config.getoption("--host-address")
    image: str | None = request.config.getoption("--image")
    http, registry, http6, registry6 = (request.config.getoption(name) or "" for name in MIRROR)
    mirror = Mirror(http=http, registry=registry, ipv6=Mirror(http=http6, registry=registry6) if http6 else None)
    pods: bool = request.config.getoption("--pods")
    pulls: str = request.config.getoption("--pulls")
    with existing(Path(given), image, mirror, pulls) if given is not None else embedded(image, pods=pods) as reached:
        admin = Cluster.from_kubeconfig(reached.kubeconfig, patience=limits.patience())
        here = host_address(reached.kubeconfig, address)
        yield Infra(admin, reached.kubeconfig, here, reached.boot_image, reached.mirror, reached.pulls)


@pytest.fixture(scope="session")
def job_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the job's kubeconfig."""
    return tmp_path_factory.mktemp("job")


@pytest.fixture(scope="session")
def cluster(infra: Infra, job_folder: Path) -> Iterator[Cluster]:
    """Return the client of a job that has exactly the rights of deploy/rbac."""
    with let_in(infra.admin, infra.kubeconfig, job_folder) as job:
        yield job


@pytest.fixture(scope="session")
def admin(infra: Infra) -> Cluster:
    """Return the client of the cluster's owner: for what the harness never does, and for looking on."""
    return infra.admin


@pytest.fixture(scope="session")
def site(infra: Infra) -> Iterator[images.Site]:
    """Serve disk images, good and bad, where importers reach them."""
    with images.serve(infra.host_address) as running:
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have the tests of disks run in a class of each binding mode that there is."""
    if "storage" in metafunc.fixturenames:
        given: str | None = metafunc.config.getoption("--kubeconfig")
        modes = bindings(Path(given) if given is not None else None)
        metafunc.parametrize("storage", modes, indirect=True, scope="session")


@pytest.fixture(scope="session")
def storage(request: pytest.FixtureRequest, infra: Infra) -> Iterator[Storage]:
    """Return a storage class of the binding mode that the test asks for."""
    with storage_of(infra.admin, request.param) as found:
        yield found


@pytest.fixture
def disk(storage: Storage) -> Disk:
    """Return what describes a DataVolume in that class, to be filled without a consumer."""
    return partial(datavolume, storage=storage)


@pytest.fixture(scope="session")
def namespaces(cluster: Cluster) -> Iterator[list[str]]:
    """Collect the tests' namespaces; at the end of the session all of them have to be gone.

    Tests do not wait for their own: a real namespace controller looks at a deleted one only after five seconds.
    """
    made: list[str] = []
    yield made
    deadline = within(GONE_SECONDS)
    for name in made:
        until(partial(gone, cluster, name), deadline=deadline, what=f"namespace {name} to be gone", interval=0.2)


@contextmanager
def fresh_namespace(cluster: Cluster, namespaces: list[str]) -> Iterator[str]:
    """Make a namespace, and have it deleted with everything in it."""
    name = f"contract-{secrets.token_hex(3)}"
    make_namespace(cluster, name)
    namespaces.append(name)
    yield name
    cluster.delete(NAMESPACE, name)


@pytest.fixture
def namespace(cluster: Cluster, namespaces: list[str]) -> Iterator[str]:
    """Return a fresh namespace, deleted when the test is over."""
    with fresh_namespace(cluster, namespaces) as name:
        yield name


@pytest.fixture
def other_namespace(cluster: Cluster, namespaces: list[str]) -> Iterator[str]:
    """Return a second fresh namespace."""
    with fresh_namespace(cluster, namespaces) as name:
        yield name


@pytest.fixture(scope="module")
def quiet_namespace(cluster: Cluster, namespaces: list[str]) -> Iterator[str]:
    """Return a namespace that a module's dry runs share: nothing is ever stored in it."""
    with fresh_namespace(cluster, namespaces) as name:
        yield name


def gone(cluster: Cluster, name: str) -> bool | NotYet:
    """Tell whether a namespace is gone, or what the API says is left in it."""
    found = cluster.get(NAMESPACE, name)
    if found is None:
        return True
    conditions = (found.get("status") or {}).get("conditions") or []
    return NotYet("; ".join(c["message"] for c in conditions if c["status"] == "True") or "it is still there")


@pytest.fixture
def watcher(admin: Cluster, namespace: str) -> Iterator[Watcher]:
    """Watch the namespace from before anything is in it."""
    running = Watcher(admin, namespace).start()
    yield running
    running.stop()
    assert not running.broken, running.broken


@pytest.fixture(scope="session")
def image(infra: Infra, cluster: Cluster) -> Iterator[GoldenImage]:
    """Have the disk image imported once, and taken away at the end if it was not there before."""
    found = infra.boot_image()
    directory = project_dir() / "vm-templates"
    made = cluster.create_if_absent(DATA_VOLUME, golden(found, labels={}, storage_class=None, directory=directory))
    wait_phase(cluster, GOLDEN_NAMESPACE, found.name, "Succeeded", seconds=IMPORT_SECONDS)
    yield found
    if made:
        infra.admin.delete(DATA_VOLUME, found.name, GOLDEN_NAMESPACE)


@pytest.fixture
def control() -> Iterator[Path]:
    """Return a folder for control sockets, whose paths have to be short; their connections are closed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ctr-"))
    yield folder
    close_connections(folder)


@pytest.fixture
def machines(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    job_folder: Path,
    namespace: str,
    image: GoldenImage,
    tmp_path: Path,
    control: Path,
) -> Machines:
    """Return what makes machines in the test's namespace; they are logged in to directly, or as --access says."""
    access: Access = request.config.getoption("access") or "direct"
    kubeconfig = job_folder / KUBECONFIG
    return Machines(cluster, namespace, image, tmp_path / "key", control, kubeconfig, default_storage(cluster), access)
