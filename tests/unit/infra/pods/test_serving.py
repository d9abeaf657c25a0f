"""Which requests for a certificate are the pods' machine's own."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.infra.pods import serving

Json = dict[str, Any]
NODE_NAME = "vmatrix-a-pods"


def request(*, name: str = f"system:node:{NODE_NAME}", user: str = "", signer: str = serving.SERVING) -> Json:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    encoded = base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": signer, "username": user or f"system:node:{NODE_NAME}", "request": encoded}
    return {"metadata": {"name": "csr-1"}, "spec": spec}


def test_the_nodes_own_request_is_told() -> None:
    assert serving.asks_for_serving(request(), NODE_NAME)


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
    assert not serving.asks_for_serving(foreign, NODE_NAME)
