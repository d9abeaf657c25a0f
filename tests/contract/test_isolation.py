"""What a guest reaches of its host and of other cells: the mirror and the registry, for reading, and nothing else.

For machines on this host, which the embedded KubeVirt makes. On other clusters, deselect with `-m "not this_host"`:
there the cluster's own network decides.
"""

from __future__ import annotations

import json
import shlex
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness import proc
from harness.embedded.machines.names import PULLS_PORT
from harness.kube.client import Cluster
from harness.kube.resources import NODE
from harness.machines.kubevirt.manifests import GoldenImage
from harness.machines.reach.ssh import close_connections
from harness.model import Access, Machine
from tests.contract.conftest import Infra, fresh_namespace
from tests.contract.job import KUBECONFIG
from tests.contract.limits import lasting
from tests.contract.machines import Machines
from tests.contract.storage import default_storage

pytestmark = [pytest.mark.machines, pytest.mark.this_host]
SCAN = Path(__file__).with_name("scan.py")
LOCAL_SECONDS = 10.0  # one command of this host
# What listens on hosts where clusters are tested; whatever else listens on this one is looked up and tried as well.
USUAL = (22, 53, 80, 111, 443, 2375, 2376, 2379, 2380, 3128, 4240, 5000, 5432, 6379, 6443, 6444, 8000, 8080, 8443, 8444)
USUAL += (9090, 9100, 10248, 10249, *range(10250, 10260), 11434, 30000)


@dataclass(frozen=True)
class Cell:
    """One machine of a cell."""

    machines: Machines
    guest: Machine

    def run(self, command: str) -> proc.Completed:
        """Run a shell command in the guest."""
        return self.machines.run(self.guest, command)

    def status(self, method: str, url: str, *words: str) -> tuple[int, str]:
        """Send a request from inside the guest; return the status (0: no answer) and the body."""
        curl = [
            "curl",
            "--silent",
            "--max-time",
            f"{lasting(5):g}",
            "--write-out",
            "\n%{http_code}",
            "--request",
            method,
            *words,
        ]
        body, _, code = self.run(shlex.join([*curl, url])).stdout.rpartition("\n")
        return int(code), body

    def scan(self, addresses: list[str], ports: list[int], *, gateway: str, udp: int, routes: bool = True) -> Any:
        """Try addresses and ports from inside the guest; return what was reached."""
        asked = {"addresses": addresses, "ports": ports, "gateway": gateway, "udp": udp, "routes": routes}
        asked["seconds"] = lasting(1)  # a neighbour on this host answers within milliseconds
        program = f"sudo python3 -c {shlex.quote(SCAN.read_text(encoding='utf-8'))}"
        done = self.run(f"echo {shlex.quote(json.dumps(asked))} | {program}")
        assert done.returncode == 0, done.stderr
        return [tuple(found) for found in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def cells(
    request: pytest.FixtureRequest,
    infra: Infra,
    cluster: Cluster,
    namespaces: list[str],
    image: GoldenImage,
    job_folder: Path,
) -> Iterator[tuple[Cell, Cell]]:
    """Make two cells with a machine each."""
    access: Access = request.config.getoption("access") or "direct"
    folder = Path(tempfile.mkdtemp(prefix="ctr-"))
    with fresh_namespace(cluster, namespaces) as one, fresh_namespace(cluster, namespaces) as two:
        storage, kubeconfig = default_storage(cluster), job_folder / KUBECONFIG
        made = [
            Machines(cluster, name, image, job_folder / f"{name}-key", folder, kubeconfig, storage, access)
            for name in (one, two)
        ]
        for machines in made:
            machines.disk("guest")
            machines.create("guest")
        for machines in made:
            machines.wait_ready("guest")
        require_this_host(infra, made[0])
        first, second = (Cell(machines, machines.login("guest")) for machines in made)
        yield first, second
        close_connections(folder)


def require_this_host(infra: Infra, machines: Machines) -> None:
    """Fail where machines are elsewhere, or what they read from is not said."""
    node = infra.admin.get(NODE, machines.launcher("guest")["spec"]["nodeName"]) or {}
    theirs = {a["address"] for a in node["status"]["addresses"]}
    if not theirs & set(addresses_of_host()):
        pytest.fail("these machines do not run on this host: deselect these tests with -m 'not this_host'")
    if not (infra.mirror.http and infra.mirror.registry):
        pytest.fail("name what guests read from: --mirror URL --registry HOST:PORT")


def addresses_of_host() -> list[str]:
    """Return this host's addresses, IPv4 and IPv6, link-local ones as well; a loopback's are every guest's own."""
    shown = json.loads(proc.run(["ip", "-json", "address", "show"], timeout=lasting(LOCAL_SECONDS)).stdout)
    found = [a["local"] for link in shown for a in link.get("addr_info", []) if a["scope"] != "host"]
    return sorted(set(found))


def link_local(hardware: str) -> str:
    """Return the IPv6 address that the kernel would give to a link with a hardware address (RFC 4291, appendix A)."""
    byte = [int(part, 16) for part in hardware.split(":")]
    byte = [byte[0] ^ 2, *byte[1:3], 0xFF, 0xFE, *byte[3:]]
    return "fe80::" + ":".join(f"{byte[i] << 8 | byte[i + 1]:x}" for i in range(0, 8, 2))


def listening() -> list[int]:
    """Return every TCP port that some process of this host listens on."""
    rows = proc.run(["ss", "-Hltn"], timeout=lasting(LOCAL_SECONDS)).stdout.splitlines()
    return sorted({int(row.split()[3].rpartition(":")[2]) for row in rows})


@contextmanager
def everywhere() -> Iterator[tuple[int, socket.socket]]:
    """Listen on all addresses of this host, for TCP and UDP, IPv4 and IPv6; give the port and the UDP socket."""
    with (
        socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as tcp,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as udp,
    ):
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp.bind(("", tcp.getsockname()[1]))
        udp.setblocking(False)
        yield tcp.getsockname()[1], udp


def arrived(udp: socket.socket) -> list[bytes]:
    """Return the first datagram that a socket has got, if any."""
    try:
        return [udp.recv(100)]
    except BlockingIOError:
        return []


def way(cell: Cell, address: str) -> tuple[str, str]:
    """Return the host's address on a guest's way to another one, and its hardware address."""
    (route,) = json.loads(
        cell.run(f"ping -c 1 -W {lasting(2):g} {address} > /dev/null; ip -json route get {address}").stdout
    )
    gateway = str(route["gateway"])
    (neighbour,) = json.loads(cell.run(f"ip -json neigh show {gateway} dev {route['dev']}").stdout)
    return gateway, str(neighbour["lladdr"])


def test_a_guest_reads_from_the_mirror_and_the_registry(infra: Infra, cells: tuple[Cell, Cell]) -> None:
    for cell in cells:
        assert cell.status("GET", f"{infra.mirror.http}/healthz") == (200, "ok\n")
        code, body = cell.status("GET", f"http://{infra.mirror.registry}/v2/_catalog")
        assert (code, type(json.loads(body)["repositories"])) == (200, list)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/x/blobs/uploads/"),
        ("PUT", "/v2/x/manifests/mine"),
        ("PATCH", "/v2/x/blobs/uploads/"),
        ("DELETE", "/v2/x/manifests/mine"),
    ],
)
def test_a_guest_writes_nothing_into_the_registry(
    infra: Infra, cells: tuple[Cell, Cell], method: str, path: str
) -> None:
    assert cells[0].status(method, f"http://{infra.mirror.registry}{path}", "--data", "{}") == (
        405,
        "Method not allowed\n",
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "application/manifests/latest"), ("POST", "application/blobs/uploads/")],
)
def test_a_guest_without_a_login_reads_and_writes_nothing_of_deliveries(
    infra: Infra, cells: tuple[Cell, Cell], method: str, path: str
) -> None:
    if not infra.pulls:
        pytest.skip("guests pull no deliveries here (--pods, or --pulls)")
    assert cells[0].status(method, f"http://{infra.pulls}/v2/{path}")[0] == 401


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_a_guest_writes_nothing_into_the_mirror(infra: Infra, cells: tuple[Cell, Cell], method: str) -> None:
    code, body = cells[0].status(method, f"{infra.mirror.http}/images/mine", "--data", "x" * 2000)
    assert (code, body.partition(":")[0]) == (405, f"{method} is not allowed")
    assert cells[0].status("GET", f"{infra.mirror.http}/images/mine")[0] == 404


def test_a_guest_reaches_nothing_else_of_its_host(infra: Infra, cells: tuple[Cell, Cell]) -> None:
    cell, _ = cells
    served = [mirror for mirror in (infra.mirror, infra.mirror.ipv6) if mirror is not None]
    urls = [urlsplit(url) for mirror in served for url in (mirror.http, f"//{mirror.registry}")]
    read = {(url.hostname, url.port) for url in (*urls, urlsplit(f"//{infra.pulls}")) if url.port}
    gateway, hardware = way(cell, str(urls[0].hostname))
    addresses = sorted({*addresses_of_host(), gateway, link_local(hardware)})
    with everywhere() as (port, udp):
        found = cell.scan(addresses, sorted({*USUAL, *listening(), port}), gateway=gateway, udp=port)
        assert arrived(udp) == []
    # The filter of an embedded instance always lets guests through to this port; without pods, nobody listens there.
    closed = set() if infra.pulls else {(str(urls[0].hostname), PULLS_PORT, "refused")}
    assert sorted(set(found) - closed) == sorted((address, number, "connected") for address, number in read)
    assert any(":" in address for address in addresses)


def test_cells_do_not_reach_each_other(infra: Infra, cells: tuple[Cell, Cell]) -> None:
    one, two = cells
    gateway, _ = way(one, str(urlsplit(infra.mirror.http).hostname))
    shown = two.run("ip -6 -json address show dev eth0").stdout
    theirs = [two.guest.address, *(a["local"] for link in json.loads(shown) for a in link.get("addr_info", []))]
    local = [address for address in theirs if address.startswith("fe80:")]
    assert len(local) == 1, shown  # the kernel's own IPv6 address; there may be one of the infrastructure's network
    ports = [22, 6443, 10250]

    assert two.scan([two.guest.address], [22], gateway=gateway, udp=9, routes=False) == [
        (two.guest.address, 22, "connected")
    ]
    assert one.scan(theirs, ports, gateway=gateway, udp=9) == []
    assert one.scan(local, ports, gateway=gateway, udp=9, routes=False) == []
    neighbours = one.run(f"sudo ping -c 2 -W {lasting(1):g} ff02::1%eth0").stdout
    assert local[0] not in neighbours
