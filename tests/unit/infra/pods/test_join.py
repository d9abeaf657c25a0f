"""How the pods' machine is made, when it is made anew, and when it takes pods."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.embedded.node.placement import MACHINES_ONLY
from harness.errors import InfraError
from harness.infra.host import pki
from harness.infra.pods import join, manifests
from harness.infra.pods.machine import BootDisk, PodsMachine
from harness.kube.client import Cluster, Listing
from harness.kube.resources import CSR, NODE, POD, SECRET, VMI, Resource
from harness.model import Mirror
from harness.until import TimedOut

Json = dict[str, Any]
NODE_NAME = "vmatrix-a-pods"


def request(*, name: str = f"system:node:{NODE_NAME}", user: str = "", signer: str = join.SERVING) -> Json:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    encoded = base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": signer, "username": user or f"system:node:{NODE_NAME}", "request": encoded}
    return {"metadata": {"name": "csr-1"}, "spec": spec}


def test_the_nodes_own_request_is_told() -> None:
    assert join.asks_for_serving(request(), NODE_NAME)


@pytest.mark.parametrize(
    "foreign",
    [
        request(user="system:node:another"),
        request(name="system:node:another"),
        request(name="system:kube-controller-manager"),
        request(signer="kubernetes.io/kube-apiserver-client"),
        {**request(), "status": {"conditions": [{"type": "Denied"}]}},
    ],
)
def test_no_other_request_is_approved(foreign: Json) -> None:
    assert not join.asks_for_serving(foreign, NODE_NAME)


HOST = "vmatrix-a"
READY = {"status": {"conditions": [{"type": "Ready", "status": "True", "message": "kubelet is ready"}]}}
UNKNOWN = {"type": "Ready", "status": "Unknown", "reason": "PodsMachine", "message": "its machine is made anew"}
Change = Callable[["Api"], None]


@pytest.fixture
def machine(tmp_path: Path) -> PodsMachine:
    pki.ensure(tmp_path, addresses=["10.213.0.1"], names=["kubernetes"], node=HOST)
    return PodsMachine(NODE_NAME, "", Mirror("http://m", "r"), BootDisk("d", "0"), {}, tmp_path, host=HOST)


class Api:
    """An API with a Node that becomes ready, and that it reaches, once its request is approved."""

    def __init__(self, machine: PodsMachine, *, instance: Json | None = None, node: Json | None = None) -> None:
        self.instance, self.node = instance, node
        self.host: Json = {"spec": {"taints": [MACHINES_ONLY]}}
        self.seed = (
            {"metadata": {"annotations": {manifests.CERTIFICATES: machine.certificates()}}} if instance else None
        )
        self.reached = instance is not None
        self.made: list[str] = []
        self.deleted: list[str] = []
        self.asked = request()

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        if resource is NODE:
            return self.host if name == HOST else self.node
        if resource is SECRET:
            return self.seed
        return self.instance if resource is VMI else None

    def list(self, resource: Resource, namespace: str = "", *, fields: str = "") -> Listing:
        if resource is POD:
            assert (namespace, fields) == ("vmatrix-pods", f"spec.nodeName={NODE_NAME}")
            return Listing([{"metadata": {"name": "of-it"}}], "1")
        assert resource is CSR
        return Listing([self.asked] if "VirtualMachine" in self.made else [], "1")

    def ensure(self, resource: Resource, body: Json) -> Json:
        return body

    def create_if_absent(self, resource: Resource, body: Json) -> bool:
        if self.instance is not None:
            return False
        self.made.append(resource.kind)
        return True

    def delete(self, resource: Resource, name: str, namespace: str = "", *, grace: int | None = None) -> bool:
        assert (grace == 0) == (resource is POD)
        self.deleted.append(f"{resource.kind} {name}")
        self.instance, self.seed, self.reached = None, None, False
        return True

    def merge(self, resource: Resource, name: str, patch: Json, *, subresource: str) -> Json:
        assert (resource, name, subresource) == (NODE, NODE_NAME, "status")
        self.node = patch
        return patch

    def replace(self, resource: Resource, body: Json, *, subresource: str) -> Json:
        assert (resource, subresource) == (CSR, "approval")
        assert [c["type"] for c in body["status"]["conditions"]] == ["Approved"]
        self.asked = body
        self.node, self.reached = READY, True
        return body

    def send(self, method: str, path: str) -> SimpleNamespace:
        assert (method, path) == ("GET", f"/api/v1/nodes/{NODE_NAME}/proxy/healthz")
        return SimpleNamespace(code=200 if self.reached else 502)


@pytest.fixture(autouse=True)
def _no_seed_and_no_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "user_data", lambda _: "#cloud-config\n")
    monkeypatch.setattr(manifests, "ensure_storage_class", lambda *_: None)


def made_by(api: Api, machine: PodsMachine, seconds: float = 5) -> Sequence[str]:
    join.ensure(cast(Cluster, api), machine, seconds=seconds)
    return api.made


def test_a_machine_whose_node_is_ready_is_left_alone(machine: PodsMachine) -> None:
    api = Api(machine, node=READY, instance={"status": {"phase": "Running"}})
    assert made_by(api, machine) == []
    assert api.deleted == []


def test_the_machine_is_made_and_its_request_approved(machine: PodsMachine) -> None:
    api = Api(machine)
    assert made_by(api, machine) == ["Secret", "DataVolume", "VirtualMachine"]
    assert api.deleted == []


@pytest.mark.parametrize("node", [None, READY])
def test_one_that_died_goes_first_though_its_node_may_still_be_ready(machine: PodsMachine, node: Json | None) -> None:
    api = Api(machine, instance={"status": {"phase": "Failed"}}, node=node)
    assert made_by(api, machine)[-1] == "VirtualMachine"
    assert api.deleted == ["Namespace vmatrix-pods", "Pod of-it"]


def test_one_with_certificates_from_before_they_were_renewed_is_made_anew(machine: PodsMachine) -> None:
    api = Api(machine, node=READY, instance={"status": {"phase": "Running"}})
    for file in pki.issued(machine.pki, "pods-kubelet").certificate, pki.issued(machine.pki, "pods-kubelet").key:
        file.unlink()
    pki.ensure(machine.pki, addresses=["10.213.0.1"], names=["kubernetes"], node=HOST)
    assert made_by(api, machine)[-1] == "VirtualMachine"
    assert api.deleted == ["Namespace vmatrix-pods", "Pod of-it"]


def test_the_node_of_one_that_is_made_anew_stays_and_is_not_ready(
    machine: PodsMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(machine, node=READY, instance={"status": {"phase": "Failed"}})
    seen: list[Json | None] = []
    monkeypatch.setattr(manifests, "ensure_storage_class", lambda *_: seen.append(api.node))
    made_by(api, machine)
    assert seen == [{"status": {"conditions": [UNKNOWN]}}]


@pytest.mark.parametrize(
    ("hold", "why"),
    [
        (lambda api: api.host.update({"spec": {}}), "vmatrix-a still takes pods"),
        (lambda api: setattr(api, "send", lambda *_: SimpleNamespace(code=502)), "has no certificate yet"),
    ],
    ids=["the host's Node takes pods", "no log can be read"],
)
def test_a_ready_node_alone_is_not_enough(machine: PodsMachine, hold: Change, why: str) -> None:
    api = Api(machine)
    hold(api)
    with pytest.raises(TimedOut, match=why):
        made_by(api, machine, seconds=0.01)


def test_one_that_dies_meanwhile_is_not_waited_for(machine: PodsMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(machine)
    api.asked = request(name="system:node:another")
    monkeypatch.setattr(api, "create_if_absent", lambda *_: setattr(api, "instance", {"status": {"phase": "Failed"}}))
    with pytest.raises(InfraError, match="ended: Failed"):
        made_by(api, machine)


def test_the_namespace_has_the_network_that_reaches_the_api() -> None:
    assert manifests.namespace()["metadata"]["annotations"] == {"local.vmatrix.dev/network-index": "250"}


class ApiApart:
    """Answers with one Node."""

    def __init__(self, node: Json | None) -> None:
        self.node = node

    def get(self, resource: Resource, name: str) -> Json | None:
        assert (resource, name) == (NODE, "n")
        return self.node


def api(node: Json | None) -> Cluster:
    return cast(Cluster, ApiApart(node))


def node(status: str, message: str) -> Json:
    return {"status": {"conditions": [{"type": "Ready", "status": status, "message": message}]}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (node("True", "kubelet is posting ready status"), ""),
        (node("Unknown", "Kubelet stopped posting node status."), "not ready: Kubelet stopped posting node status."),
        ({"status": {}}, "its kubelet has not reported yet"),
        (None, "node n is not there"),
    ],
)
def test_a_node_that_takes_no_pods_is_a_problem(found: Json | None, said: str) -> None:
    problem = join.placement_problem(api(found), "n")
    assert said in problem
    assert bool(problem) == bool(said)


def test_machines_have_a_node_of_their_own_once_it_has_the_taint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "APART_SECONDS", 0.0)
    join.wait_apart(api({"spec": {"taints": [MACHINES_ONLY]}}), "n")
    with pytest.raises(TimedOut, match="it has no taint"):
        join.wait_apart(api({"spec": {"taints": [{"key": "other"}]}}), "n")
