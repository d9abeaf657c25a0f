"""The first control plane of three is lost, and the API goes on answering by each type of endpoint.

The load balancer's controller is played: it gives the Service an address, which kube-proxy serves. So are the Ingress
controller and the Gateway: they pass TLS through by SNI to the Service. All the rest is real.
"""

from __future__ import annotations

import base64
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_interface
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from harness import proc
from harness.cell import provision
from harness.kube.client import Json
from harness.kube.objects import dig
from harness.kube.resources import GATEWAY, INGRESS, INGRESS_CLASS, SECRET, SERVICE, Resource
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.spec import Spec
from harness.spec.models import Topology
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.served_kinds import LISTENER, TLS_ROUTES, serving_gateways
from tests.embedded.operator_live.joined import joined
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, deployed
from tests.embedded.operator_live.service_pod import manager

log = logging.getLogger(__name__)
PRODUCT, HOST = "operator", "api.guest.example"
THREE_ALONE = {
    "machines": [
        {
            "name": "cp",
            "count": 3,
            "groups": ["control_plane", "etcd", "node"],
            "cpus": 2,
            "memory": "2Gi",
            "disk": "12Gi",
        }
    ]
}
LAST_HOST = 240  # of the machines' network: nobody else has it
GIVEN = "198.51.100.7"  # what the load balancer's controller gives
LOST_AFTER_SECONDS = 5  # within which the login that asks for the loss has ended
LOST_SECONDS, ANSWERS_WITHIN_SECONDS = 60, 30.0
CUT = "table inet lost { chain i { type filter hook input priority -300; iif != lo drop; }; " + (
    "chain o { type filter hook output priority -300; oif != lo drop; }; }"
)
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def spec(spec: Spec) -> Spec:
    """Return the packaged matrix, with a topology of three control planes alone."""
    topologies = {**spec.topologies, "all-in-one": Topology.model_validate(THREE_ALONE)}
    return spec.model_copy(update={"topologies": topologies})


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of three control planes."""
    return cell_of(spec, PRODUCT, topology="all-in-one", scenario="fresh", addons="core")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed."""
    with deployed(spec, planned, "ways", tmp_path_factory.mktemp("cell")) as found:
        yield found


@dataclass(frozen=True)
class Around:
    """What is around the cluster. netns: where clients are, beside the infra cluster's pods.  address: of these."""

    netns: str
    address: str
    virtual: str


@pytest.fixture(scope="module")
def around(lived: Lived) -> Iterator[Around]:
    """Have clients beside the infra cluster's pods, and nothing between them and the machines."""
    planes = [
        lived.get(f"cp-{number}")["status"]["infrastructure"]["address"]
        for number in range(len(lived.life.attempt.cell.machines))
    ]
    virtual = str(ip_interface(f"{planes[0]}/24").network[LAST_HOST])
    address = manager(lived)["status"]["hostIP"]
    with joined(address, *planes, virtual=[virtual]) as netns:
        yield Around(netns, address, virtual)


@contextmanager
def running(around: Around, log_file: Path, program: str, *words: object) -> Iterator[None]:
    """Have a program run where clients are."""
    inside: list[str | Path] = [
        "ip",
        "netns",
        "exec",
        around.netns,
        sys.executable,
        HERE / program,
        *(str(word) for word in words),
    ]
    service = proc.spawn([*proc.ending_with_us(), *inside], log=log_file)
    try:
        yield
    finally:
        service.stop(grace=5)


def asked(lived: Lived, **endpoint: Any) -> None:
    """Ask for an endpoint."""
    lived.edit({"endpoint": {**dict.fromkeys(("host", "address", "className", "gatewayRef")), **endpoint}})


def ready(lived: Lived) -> str:
    """Return the endpoint's URL once the one that is asked for is ready, and all that it needs is done."""

    def as_asked(deployment: Json) -> bool:
        conditions = {entry["type"]: entry for entry in dig(deployment, "status", "conditions") or []}
        current = deployment["metadata"]["generation"]
        return all(
            kind in conditions
            and conditions[kind].get("observedGeneration") == current
            and conditions[kind]["status"] == status
            for kind, status in (("EndpointReady", "True"), ("Progressing", "False"))
        )

    lived.wait("guest", as_asked, "reached as asked", CLUSTER_DEPLOYMENT)
    return str(dig(lived.get("guest", CLUSTER), "status", "endpoint", "url"))


def answered(lived: Lived, kind: Resource, status: Json, **spec: str) -> None:
    """Say of an object of the endpoint what its controller says, once the object has these fields."""

    def there() -> bool | NotYet:
        fields = dig(lived.api.get(kind, "guest-api", lived.namespace), "spec") or {}
        return (bool(fields) and fields.items() >= spec.items()) or NotYet(f"its spec is {fields}")

    until(there, deadline=Deadline.after(lived.seconds), what=f"{kind.kind} guest-api", interval=INTERVAL)
    lived.api.merge(kind, "guest-api", {"status": status}, lived.namespace, subresource="status")


@contextmanager
def by_service(lived: Lived, around: Around, folder: Path) -> Iterator[str]:
    asked(lived, type="Service")
    ready(lived)
    yield str(lived.get("guest-api", SERVICE)["spec"]["clusterIP"])


@contextmanager
def by_load_balancer(lived: Lived, around: Around, folder: Path) -> Iterator[str]:
    asked(lived, type="LoadBalancer")
    answered(lived, SERVICE, {"loadBalancer": {"ingress": [{"ip": GIVEN}]}}, type="LoadBalancer")
    ready(lived)
    yield GIVEN


@contextmanager
def behind_edge(lived: Lived, around: Around, folder: Path, port: int) -> Iterator[str]:
    ready(lived)
    service = lived.get("guest-api", SERVICE)["spec"]["clusterIP"]
    with running(around, folder / "edge.log", "edge.py", port, f"{HOST}={service}:6443"):
        yield around.address


@contextmanager
def by_ingress(lived: Lived, around: Around, folder: Path) -> Iterator[str]:
    spec = {"controller": "haproxy.org/ingress-controller"}
    lived.api.create(INGRESS_CLASS, INGRESS_CLASS.manifest("edge", "", labels={}, spec=spec))
    asked(lived, type="Ingress", host=HOST, className="edge")
    answered(lived, INGRESS, {"loadBalancer": {"ingress": [{"ip": around.address}]}})
    with behind_edge(lived, around, folder, 443) as address:
        yield address


@contextmanager
def by_gateway(lived: Lived, around: Around, folder: Path) -> Iterator[str]:
    with serving_gateways(lived.api):
        spec = {"listeners": [LISTENER]}
        lived.api.create(GATEWAY, GATEWAY.manifest("edge", lived.namespace, labels={}, spec=spec))
        asked(lived, type="Gateway", host=HOST, gatewayRef={"name": "edge"})
        accepted = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}
        answered(lived, TLS_ROUTES, {"parents": [{"conditions": [accepted]}]})
        with behind_edge(lived, around, folder, int(str(LISTENER["port"]))) as address:
            yield address
        asked(lived, type="Service")
        ready(lived)


@contextmanager
def by_virtual_address(lived: Lived, around: Around, folder: Path) -> Iterator[str]:
    asked(lived, type="VIP", address=around.virtual)
    ready(lived)
    yield around.virtual


WAYS = {
    "Service": by_service,
    "LoadBalancer": by_load_balancer,
    "Ingress": by_ingress,
    "Gateway": by_gateway,
    "VIP": by_virtual_address,
}


@dataclass
class Asking:
    """Answers of the API by an endpoint."""

    file: Path
    times: list[float] = field(default_factory=list)  # of those that were ok, by the monotonic clock
    failures: set[str] = field(default_factory=set)

    def read(self) -> Asking:
        """Read what there is so far."""
        for line in self.file.read_text(encoding="utf-8").splitlines()[len(self.times) :]:
            moment, _, said = line.partition(" ")
            if said.endswith(" 200 OK"):
                self.times.append(float(moment))
            else:
                self.failures.add(said)
        return self

    def longest(self) -> float:
        """Return the longest time between two answers in seconds."""
        return max(later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False))


@contextmanager
def asking(lived: Lived, around: Around, address: str, folder: Path) -> Iterator[Asking]:
    """Ask by the kubeconfig that people get, at the address to which its name leads."""
    content = dig(lived.get("guest-user-kubeconfig", SECRET), "data", "value")
    config = yaml.safe_load(base64.b64decode(content))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    url = urlsplit(cluster["server"])
    pairs = {
        "ca": cluster["certificate-authority-data"],
        "crt": user["client-certificate-data"],
        "key": user["client-key-data"],
    }
    for name, data in pairs.items():
        (folder / name).write_bytes(base64.b64decode(data))
    words = (address, url.port or 443, url.hostname, *(folder / name for name in pairs))
    made = Asking(folder / "answers")
    with running(around, made.file, "asking.py", *words):

        def answers() -> bool | NotYet:
            asked_so_far = made.file.read_text(encoding="utf-8") if made.file.exists() else ""
            return " 200 OK" in asked_so_far or NotYet(asked_so_far[-200:])

        until(answers, deadline=Deadline.after(ANSWERS_WITHIN_SECONDS), what=f"{address} answers", interval=INTERVAL)
        yield made


def goes_on(made: Asking, seconds: float) -> None:
    """Wait for some time, and require that answers never ceased for long."""
    end = Deadline.after(seconds)

    def over() -> bool | NotYet:
        return end.remaining() <= 0 or NotYet(f"{end.remaining():.0f} s are left")

    until(over, deadline=Deadline.after(2 * seconds), what="the time of the loss", interval=INTERVAL)
    made.read()
    log.info("%d answers, the longest pause %.1f s; %s", len(made.times), made.longest(), sorted(made.failures))
    assert made.longest() <= ANSWERS_WITHIN_SECONDS
    assert made.times[-1] - made.times[0] >= seconds - ANSWERS_WITHIN_SECONDS


@pytest.mark.parametrize("way", WAYS)
def test_the_api_goes_on_without_the_first_control_plane(
    way: str, lived: Lived, around: Around, tmp_path: Path
) -> None:
    with WAYS[way](lived, around, tmp_path) as address, asking(lived, around, address, tmp_path) as made:
        back = f"systemd-run --on-active={LOST_AFTER_SECONDS + LOST_SECONDS} nft delete table inet lost"
        lived.sh("cp-0", f'{back} && systemd-run --on-active={LOST_AFTER_SECONDS} nft "{CUT}"')
        goes_on(made, LOST_AFTER_SECONDS + LOST_SECONDS)
        assert made.failures, "for a moment at least, it was lost"
        lived.wait("guest", lambda one: dig(one, "status", "operation") is None, "idle", CLUSTER)


def test_a_machine_that_is_gone_takes_its_virtual_address_along(lived: Lived, around: Around, tmp_path: Path) -> None:
    with by_virtual_address(lived, around, tmp_path) as address, asking(lived, around, address, tmp_path) as made:
        provision.destroy(lived.life.site, lived.namespace, ("cp-0",))
        goes_on(made, LOST_SECONDS)
