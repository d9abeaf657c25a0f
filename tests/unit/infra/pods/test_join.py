"""Which requests for a certificate are the pods' machine's own, and when it is made anew."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.errors import InfraError
from harness.infra.pods import join, objects, seed
from harness.infra.pods.machine import BootDisk, PodsMachine
from harness.kube.client import Cluster, Listing
from harness.kube.resources import CSR, NODE, VMI, Resource
from harness.model import Mirror

Json = dict[str, Any]
NODE_NAME = "vmatrix-a-pods"
MACHINE = PodsMachine(NODE_NAME, "", Mirror("http://m", "r"), BootDisk("d", "0"), {}, Path())
READY = {"status": {"conditions": [{"type": "Ready", "status": "True", "message": "kubelet is ready"}]}}


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


class Api:
    """An API with a Node that becomes ready once its request is approved."""

    def __init__(self, *, instance: Json | None = None, node: Json | None = None) -> None:
        self.instance, self.node = instance, node
        self.made: list[str] = []
        self.deleted: list[str] = []
        self.asked = request()

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        return self.node if resource is NODE else self.instance if resource is VMI else None

    def list(self, resource: Resource) -> Listing:
        assert resource is CSR
        return Listing([self.asked] if self.made else [], "1")

    def ensure(self, resource: Resource, body: Json) -> Json:
        self.made.append(resource.kind)
        return body

    def create_if_absent(self, resource: Resource, body: Json) -> bool:
        self.made.append(resource.kind)
        return True

    def delete(self, resource: Resource, name: str) -> bool:
        self.deleted.append(f"{resource.kind} {name}")
        self.instance = self.node = None
        return True

    def replace(self, resource: Resource, body: Json, *, subresource: str) -> Json:
        assert (resource, subresource) == (CSR, "approval")
        assert [c["type"] for c in body["status"]["conditions"]] == ["Approved"]
        self.asked = body
        self.node = READY
        return body


@pytest.fixture(autouse=True)
def _short_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed, "user_data", lambda _: "#cloud-config\n")


def made_by(api: Api) -> Sequence[str]:
    join.ensure(cast(Cluster, api), MACHINE, seconds=5)
    return api.made


def test_a_node_that_is_ready_is_left_alone() -> None:
    assert made_by(Api(node=READY)) == []


def test_the_machine_is_made_and_its_request_approved() -> None:
    api = Api()
    assert made_by(api) == ["Namespace", "Secret", "DataVolume", "VirtualMachine"]
    assert api.deleted == []


@pytest.mark.parametrize("node", [None, READY])
def test_one_that_died_goes_first_though_its_node_may_still_be_ready(node: Json | None) -> None:
    api = Api(instance={"status": {"phase": "Failed"}}, node=node)
    assert made_by(api)[-1] == "VirtualMachine"
    assert api.deleted == ["Namespace vmatrix-pods", f"Node {NODE_NAME}"]


def test_one_that_dies_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()
    api.asked = request(name="system:node:another")
    monkeypatch.setattr(api, "create_if_absent", lambda *_: setattr(api, "instance", {"status": {"phase": "Failed"}}))
    with pytest.raises(InfraError, match="ended: Failed"):
        made_by(api)


def test_the_namespace_has_the_network_that_reaches_the_api() -> None:
    assert objects.namespace()["metadata"]["annotations"] == {"local.vmatrix.dev/network-index": "250"}
