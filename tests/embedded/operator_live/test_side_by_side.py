"""Two clusters with equal wishes, side by side on one flat network: nothing of one is any good in the other.

Each attempt is made twice from a machine of one cluster, as root: at that cluster, where it must succeed, and at the
other one, which must refuse it. The second cluster does the same. A pool gives each its networks.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import condition, dig, ensure
from harness.kube.resources import CRD, POD, SECRET, SERVICE
from harness.model import Cell
from harness.operator.api.crds import crds
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_NETWORK_POOL, CLUSTER_USER
from harness.spec import Spec
from harness.spec.models import Topology
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, changed_spec, living, site_of

PRODUCT, POOL, USER = "operator", "flat", "alice"
NETWORK = 'network: {{ section("network", "vxlan: "'
MEMBERS = '{% for name, members in wanted | groupby("set") %}'
CHANGES = {
    "cluster.yml.j2": [
        (NETWORK, NETWORK.replace('"vxlan: "', f'"pool: {POOL}, vxlan: "')),
        (MEMBERS, MEMBERS.replace("wanted |", "wanted[:1] |")),  # the second machine is the other cluster's
    ]
}
TWO_ALONE = {
    "machines": [
        {
            "name": "cp",
            "count": 2,
            "groups": ["control_plane", "etcd", "node"],
            "cpus": 2,
            "memory": "2Gi",
            "disk": "12Gi",
        }
    ]
}
RANGES = {
    "pods": [{"cidr": "10.64.0.0/12", "prefix": 16}],
    "services": [{"cidr": "10.112.0.0/12", "prefix": 16}],
    "vxlan": {"vnis": {"first": 100, "last": 199}, "ports": {"first": 20000, "last": 20099}},
}
IMAGE, PORT = "e2e-test-images/agnhost:2.63.0", 8080
PKI = "/etc/kubernetes/pki"
ANSWER_SECONDS = 5
REFUSED = "Unauthorized|must be logged in|unauthorized"
UNKNOWN = "certificate signed by unknown authority"
# With TLS 1.3 a server refuses a certificate after the handshake: what was being written then may not get there.
BAD_CERTIFICATE = "bad certificate|unknown certificate|unknown ca|certificate required|broken pipe|reset by peer"
SILENT = (
    "TIMEOUT|timed out|Client.Timeout|deadline exceeded|REFUSED|connection refused|no route to host|unreachable|OTHER"
)


@dataclass(frozen=True)
class Peer:
    """A cluster of one machine.

    name: of its ClusterDeployment.  machine, address: where it runs.  guest: its API.
    pod, service, dns: addresses in its networks.
    """

    name: str
    machine: str
    address: str
    guest: Cluster
    kubeconfig: Path
    pod: str = ""
    service: str = ""
    dns: str = ""

    def words(self) -> dict[str, str]:
        """Return what the commands of attempts name of the cluster that they are made at."""
        return {"address": self.address, "pod": self.pod, "service": self.service, "dns": self.dns}


@dataclass(frozen=True)
class Attempt:
    """A command that a machine's root runs, with credentials of its own cluster.

    command: with the places of `Peer.words`.  succeeds: what it prints at its own cluster, as a regular expression.
    refused: what it says at the other one.
    """

    name: str
    command: str
    succeeds: str
    refused: str


def asked(path: str, *flags: str, server: str = "https://{address}:6443", verified: bool = False) -> str:
    """Return a request of kubectl at a server, without anybody's kubeconfig unless a flag names one."""
    words = ["kubectl", "--server", server, "--request-timeout", f"{ANSWER_SECONDS}s", *flags]
    if not verified:
        words.append("--insecure-skip-tls-verify")
    return " ".join([*words, "get", "--raw", path])


def pair(name: str) -> tuple[str, ...]:
    """Return a certificate and its key, below the cluster's certificates."""
    return (
        "--kubeconfig",
        "/dev/null",
        "--client-certificate",
        f"{PKI}/{name}.crt",
        "--client-key",
        f"{PKI}/{name}.key",
    )


def kubeconfig(name: str) -> tuple[str, ...]:
    return ("--kubeconfig", f"/etc/kubernetes/{name}.conf")


def from_pod(target: str) -> str:
    """Return a connection from a pod of the machine's cluster."""
    return (
        "kubectl --kubeconfig /etc/kubernetes/admin.conf exec try -- "
        f"/agnhost connect {target} --timeout={ANSWER_SECONDS}s && echo connected"
    )


OBJECTS = '"kind":"[A-Za-z]*List"'
NODES = "/api/v1/nodes"
TOKEN = "$(kubectl --kubeconfig /etc/kubernetes/admin.conf create token default)"
ETCD = "https://{address}:2379"
ATTEMPTS = (
    Attempt("admin, verified", asked(NODES, *kubeconfig("admin"), verified=True), OBJECTS, UNKNOWN),
    Attempt("super-admin, verified", asked(NODES, *kubeconfig("super-admin"), verified=True), OBJECTS, UNKNOWN),
    Attempt("admin", asked(NODES, *kubeconfig("admin")), OBJECTS, REFUSED),
    Attempt("super-admin", asked(NODES, *kubeconfig("super-admin")), OBJECTS, REFUSED),
    Attempt("kubelet", asked("/api/v1/services", *kubeconfig("kubelet")), OBJECTS, REFUSED),
    Attempt("controller manager", asked(NODES, *kubeconfig("controller-manager")), OBJECTS, REFUSED),
    Attempt("scheduler", asked(NODES, *kubeconfig("scheduler")), OBJECTS, REFUSED),
    Attempt(
        "token of a ServiceAccount",
        asked("/api", "--kubeconfig", "/dev/null", "--token", TOKEN),
        "APIVersions",
        REFUSED,
    ),
    Attempt(
        "token that lets machines join",
        asked("/api", "--kubeconfig", "/dev/null", "--token", "$(kubeadm token create --ttl 10m)"),
        "APIVersions",
        REFUSED,
    ),
    Attempt(
        "front proxy",
        f"curl --silent --show-error --insecure --max-time {ANSWER_SECONDS} --cert {PKI}/front-proxy-client.crt "
        f"--key {PKI}/front-proxy-client.key --header X-Remote-User:root --header X-Remote-Group:system:masters "
        "https://{address}:6443/api/v1/nodes",
        '"kind": *"NodeList"',
        REFUSED,
    ),
    Attempt(
        "API server at a kubelet",
        asked("/pods", *pair("apiserver-kubelet-client"), server="https://{address}:10250"),
        '"kind":"PodList"',
        REFUSED,
    ),
    Attempt(
        "API server at etcd",
        asked("/version", *pair("apiserver-etcd-client"), server=ETCD),
        "etcdserver",
        BAD_CERTIFICATE,
    ),
    Attempt(
        "probe at etcd", asked("/version", *pair("etcd/healthcheck-client"), server=ETCD), "etcdserver", BAD_CERTIFICATE
    ),
    Attempt(
        "server of etcd at etcd", asked("/version", *pair("etcd/server"), server=ETCD), "etcdserver", BAD_CERTIFICATE
    ),
    Attempt(
        "member of etcd at a member",
        f"curl --silent --show-error --insecure --http1.1 --max-time {ANSWER_SECONDS} --cert {PKI}/etcd/peer.crt "
        f"--key {PKI}/etcd/peer.key https://{{address}}:2380/members",
        "peerURLs",
        BAD_CERTIFICATE,
    ),
    Attempt(
        "machine to pod",
        f"curl --silent --show-error --max-time {ANSWER_SECONDS} http://{{pod}}:{PORT}/hostname",
        "try",
        SILENT,
    ),
    Attempt(
        "machine to Service",
        f"curl --silent --show-error --max-time {ANSWER_SECONDS} http://{{service}}/hostname",
        "try",
        SILENT,
    ),
    Attempt("pod to pod", from_pod(f"{{pod}}:{PORT}"), "connected", SILENT),
    Attempt("pod to Service", from_pod("{service}:80"), "connected", SILENT),
    Attempt("pod to the cluster's DNS", from_pod("{dns}:53"), "connected", SILENT),
)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """Return the packaged matrix, whose clusters take their networks from a pool, and whose cells have two machines."""
    changed = changed_spec(PRODUCT, tmp_path_factory.mktemp("objects") / PRODUCT, CHANGES)
    product = changed.products[PRODUCT]
    assert product.declared is not None
    declared = product.declared.model_copy(update={"machines": None})  # the cell has one more than the cluster
    products = {PRODUCT: product.model_copy(update={"declared": declared})}
    topologies = {**changed.topologies, "all-in-one": Topology.model_validate(TWO_ALONE)}
    return changed.model_copy(update={"products": products, "topologies": topologies})


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    return cell_of(spec, PRODUCT, topology="all-in-one", scenario="fresh")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the first cluster once it is deployed."""
    with site_of(spec, [planned], "apart") as site:
        for body in crds():
            ensure(site.cluster, CRD, body)

        def made() -> bool | NotYet:
            try:
                ensure(
                    site.cluster, CLUSTER_NETWORK_POOL, CLUSTER_NETWORK_POOL.manifest(POOL, "", labels={}, spec=RANGES)
                )
            except ApiFailure as failure:  # not served yet
                return NotYet(failure.summary)
            return True

        until(made, deadline=Deadline.after(site.timeouts.collect), what="the pool to be there", interval=INTERVAL)
        with living(site, planned, tmp_path_factory.mktemp("cell")) as life:
            life.apply(0)
            yield Lived.of(life)


@pytest.fixture(scope="module")
def peers(lived: Lived, tmp_path_factory: pytest.TempPathFactory) -> tuple[Peer, Peer]:
    """Return both clusters; the second has the first one's wishes, on the second machine."""
    spec: Json = copy.deepcopy(lived.get("guest", CLUSTER_DEPLOYMENT)["spec"])
    spec["machineSets"][0]["machines"] = {"names": ["cp-1"]}
    for own in ("pods", "services"):  # a cell's product names them, and the pool refuses to give them twice
        spec["network"].pop(own)
    lived.api.create(CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.manifest("other", lived.namespace, labels={}, spec=spec))
    lived.wait(
        "other", lambda one: (condition(one, "Ready") or {}).get("status") == "True", "Ready", CLUSTER_DEPLOYMENT
    )
    folder = tmp_path_factory.mktemp("kubeconfigs")
    made = [peer_of(lived, name, machine, folder) for name, machine in (("guest", "cp-0"), ("other", "cp-1"))]
    return made[0], made[1]


def secret(lived: Lived, name: str, path: Path) -> Path:
    """Write the kubeconfig of a Secret to a file."""
    path.write_bytes(base64.b64decode(lived.get(name, SECRET)["data"]["value"]))
    return path


def opened(path: Path, address: str, trusted: Path | None = None) -> Cluster:
    """Open a kubeconfig with the API at another address, and with another one's CA."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    (cluster,) = found["clusters"]
    cluster["cluster"]["server"] = f"https://{address}:6443"
    if trusted is not None:
        (other,) = yaml.safe_load(trusted.read_text(encoding="utf-8"))["clusters"]
        cluster["cluster"]["certificate-authority-data"] = other["cluster"]["certificate-authority-data"]
    written = path.with_name(f"{path.name}-at-{address}{'-trusting' if trusted else ''}")
    written.write_text(yaml.safe_dump(found), encoding="utf-8")
    return Cluster.from_kubeconfig(written)


def peer_of(lived: Lived, name: str, machine: str, folder: Path) -> Peer:
    """Return a cluster with a pod and a Service that answer."""
    path = secret(lived, f"{name}-kubeconfig", folder / name)
    address = next(one.address for one in lived.life.provision().machines if one.name == machine)
    guest = opened(path, address)
    container = {
        "name": "c",
        "image": f"{lived.life.site.mirror.registry}/{IMAGE}",
        "args": ["netexec", f"--http-port={PORT}"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 1},
    }
    labels = {"app": "try"}
    guest.create(POD, POD.manifest("try", "default", labels=labels, spec={"containers": [container]}))
    ports = [{"port": 80, "targetPort": PORT}]
    service = guest.create(
        SERVICE, SERVICE.manifest("try", "default", labels={}, spec={"selector": labels, "ports": ports})
    )

    def ready() -> Json | NotYet:
        pod = guest.get(POD, "try", "default") or {}
        return pod if (condition(pod, "Ready") or {}).get("status") == "True" else NotYet(str(pod.get("status")))

    pod = until(ready, deadline=Deadline.after(lived.life.site.timeouts.collect), what="a pod", interval=INTERVAL)
    dns = dig(guest.get(SERVICE, "kube-dns", "kube-system"), "spec", "clusterIP")
    return Peer(
        name, machine, address, guest, path, dig(pod, "status", "podIP"), dig(service, "spec", "clusterIP"), dns
    )


def output(lived: Lived, machine: str, command: str) -> str:
    """Return what a command on a machine prints, whether it succeeds or not."""
    return lived.sh(machine, f"({command}) 2>&1 || true")


def test_each_has_networks_and_cas_of_its_own(lived: Lived, peers: tuple[Peer, Peer]) -> None:
    mine, other = (lived.get(peer.name, CLUSTER)["status"]["networks"] for peer in peers)
    assert set(mine) == set(other)
    for key in ("pods", "services", "vni", "port"):
        assert mine[key] != other[key], key
    for name in ("ca", "etcd", "proxy", "sa"):
        first, second = (lived.get(f"{peer.name}-{name}", SECRET)["data"] for peer in peers)
        assert first["tls.key"] != second["tls.key"], name


def test_their_machines_reach_each_other(lived: Lived, peers: tuple[Peer, Peer]) -> None:
    """What is refused below is not refused by a network that lacks a way."""
    for here, there in (peers, peers[::-1]):
        assert "0% packet loss" in output(lived, here.machine, f"ping -c 2 -W 2 {there.address}")


@pytest.mark.parametrize("turn", [0, 1], ids=["from-guest", "from-other"])
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_what_opens_one_opens_nothing_of_the_other(
    lived: Lived, peers: tuple[Peer, Peer], attempt: Attempt, turn: int
) -> None:
    here, there = peers[turn], peers[1 - turn]
    own = output(lived, here.machine, attempt.command.format(**here.words()))
    assert re.search(attempt.succeeds, own), own
    other = output(lived, here.machine, attempt.command.format(**there.words()))
    assert re.search(attempt.refused, other), other
    assert not re.search(attempt.succeeds, other), other


@pytest.mark.parametrize("turn", [0, 1], ids=["of-guest", "of-other"])
@pytest.mark.parametrize("name", ["administrator", "user"])
def test_kubeconfigs_from_outside_open_one_cluster(
    lived: Lived, peers: tuple[Peer, Peer], name: str, turn: int, tmp_path: Path
) -> None:
    here, there = peers[turn], peers[1 - turn]
    path = here.kubeconfig
    if name == "user":
        path = secret(lived, user_of(lived, here), tmp_path / "user")
    assert opened(path, here.address).list(POD, "default").items
    with pytest.raises(VmatrixError, match=r"(?i)certificate"):
        opened(path, there.address).list(POD, "default")
    with pytest.raises(ApiFailure) as refused:
        opened(path, there.address, trusted=there.kubeconfig).list(POD, "default")
    assert refused.value.code == 401


def user_of(lived: Lived, peer: Peer) -> str:
    """Return the Secret of a user of a cluster, who may read pods."""
    name = f"{USER}-{peer.name}"
    wish: Mapping[str, Any] = {"cluster": peer.name, "bindings": [{"name": "view"}], "validitySeconds": 3600}
    lived.api.create(CLUSTER_USER, CLUSTER_USER.manifest(name, lived.namespace, labels={}, spec=wish))
    lived.wait(name, lambda one: (condition(one, "Ready") or {}).get("status") == "True", "Ready", CLUSTER_USER)
    return f"{peer.name}-user-{name}"
