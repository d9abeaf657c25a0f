"""CAs that an issuer of cert-manager signs: what it is asked for, and every answer that it can give."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from harness.kube import certificates
from harness.kube.certificates import pem_of
from harness.operator.api.clusterdeployment import IssuerRef
from harness.operator.decide.authority import AUTHORITIES, AuthorityRefused, judged
from harness.operator.decide.issuers import REFUSED, USAGES, WAITING, asks_for, issued, request_of
from tests.unit.operator.decide.wishes import NOW, wish

CA = AUTHORITIES[0]
YEAR = timedelta(days=365)
ISSUER = IssuerRef(name="org", kind="ClusterIssuer")
KEY = pem_of(certificates.new_key())
ROOT = certificates.authority("root", NOW, YEAR, kubeadm=True)
Json = dict[str, Any]


def asked(key: bytes = KEY, issuer: IssuerRef = ISSUER, **spec: Any) -> Json:
    return request_of(wish(**spec).wish, CA, issuer, "guest-ca", key)


def signed(request: Json, *, ca: bool = True, lifetime: timedelta = YEAR) -> bytes:
    """Return what an issuer signs for a request, as PEM."""
    csr = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
    made = (
        x509.CertificateBuilder()
        .subject_name(csr.subject)
        .issuer_name(ROOT[0].subject)
        .public_key(csr.public_key())
        .serial_number(7)
        .not_valid_before(NOW - YEAR)
        .not_valid_after(NOW + lifetime)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    return pem_of(made.sign(ROOT[1], hashes.SHA256()))


def answered(request: Json, certificate: bytes | None = None, *conditions: tuple[str, str, str, str]) -> Json:
    rows = [dict(zip(("type", "status", "reason", "message"), row, strict=True)) for row in conditions]
    status: Json = {"conditions": rows}
    if certificate is not None:
        status |= {"certificate": base64.b64encode(certificate).decode(), "ca": base64.b64encode(b"any").decode()}
    return {**request, "status": status}


def test_a_request_asks_for_a_ca_as_kubeadm_makes_it() -> None:
    request = asked(certificates={"caValidity": "720h"})
    assert (request["apiVersion"], request["kind"]) == ("cert-manager.io/v1", "CertificateRequest")
    assert request["metadata"]["name"] == "guest-ca"
    spec = request["spec"]
    assert (spec["isCA"], spec["usages"], spec["duration"]) == (True, [*USAGES], "720h")
    assert spec["issuerRef"] == {"name": "org", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    csr = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    assert csr.is_signature_valid
    assert csr.subject.rfc4514_string() == "CN=kubernetes"
    assert csr.public_key() == certificates.key_of(KEY).public_key()


def test_without_a_validity_it_asks_for_ten_years() -> None:
    assert asked()["spec"]["duration"] == "87600h"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, True),
        ({"issuer": IssuerRef(name="other", kind="ClusterIssuer")}, False),
        ({"issuer": IssuerRef(name="org")}, False),
        ({"issuer": IssuerRef(name="org", kind="ClusterIssuer", group="example.org")}, False),
        ({"key": pem_of(certificates.new_key())}, False),
    ],
)
def test_a_request_of_another_key_or_issuer_is_another_one(other: Json, same: bool) -> None:
    assert asks_for(asked(), asked(**other)) is same


@pytest.mark.parametrize("text", ["", "no base64 at all", base64.b64encode(b"no request").decode()])
def test_a_request_that_cannot_be_read_is_another_one(text: str) -> None:
    found = asked()
    assert not asks_for({**found, "spec": {**found["spec"], "request": text}}, asked())


def test_a_signed_ca_is_used_without_those_that_issued_it() -> None:
    """Else whoever has a certificate of the same root would be somebody in the cluster."""
    request = asked()
    chain = signed(request) + pem_of(ROOT[0])
    made = issued(answered(request, chain, ("Ready", "True", "Issued", "Certificate fetched")), CA, KEY, NOW)
    assert len(x509.load_pem_x509_certificates(made)) == 1
    assert judged(CA, "guest-ca", {"tls.crt": made, "tls.key": KEY}, NOW).expires is not None


ANSWERS: dict[str, tuple[list[tuple[str, str, str, str]], str, str]] = {
    "nothing": ([], WAITING, "cert-manager has not answered yet"),
    "approved": ([("Approved", "True", "cert-manager.io", "approved")], WAITING, "has not answered"),
    "no issuer": (
        [("Ready", "False", "Pending", 'Referenced "ClusterIssuer" not found')],
        WAITING,
        'ClusterIssuer org has not signed CertificateRequest guest-ca: Referenced "ClusterIssuer" not found',
    ),
    "failed": (
        [("Ready", "False", "Failed", "Vault failed to sign:\n permission denied")],
        REFUSED,
        "does not sign CertificateRequest guest-ca: Vault failed to sign: permission denied: correct that, then delete",
    ),
    "denied": ([("Denied", "True", "policy", "no CAs for you")], REFUSED, "no CAs for you"),
    "denied, as Ready says": (
        [("Ready", "False", "Denied", "denied by an approver")],
        REFUSED,
        "denied by an approver",
    ),
    "not denied": ([("Denied", "False", "policy", "fine")], WAITING, "has not answered"),
    "invalid": ([("InvalidRequest", "True", "x", "the usages do not match")], REFUSED, "the usages do not match"),
    "no words": ([("Ready", "False", "Failed", "")], REFUSED, "guest-ca: Failed: correct"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_not_signed_says_why_and_what_to_do(name: str) -> None:
    conditions, reason, words = ANSWERS[name]
    with pytest.raises(AuthorityRefused) as refused:
        issued(answered(asked(), None, *conditions), CA, KEY, NOW)
    assert refused.value.reason == reason
    assert words in str(refused.value)
    assert ("delete CertificateRequest guest-ca" in str(refused.value)) is (reason == REFUSED)


UNUSABLE: dict[str, tuple[bytes, str]] = {
    "a leaf": (signed(asked(), ca=False), "is not a CA"),
    "an expired one": (signed(asked(), lifetime=-timedelta(days=1)), "has expired"),
    "another key": (signed(asked(pem_of(certificates.new_key()))), "is not the key of"),
    "text": (b"signed, believe me", "signed what is not a CA for this cluster"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_signed_wrongly_is_not_given_to_machines(name: str) -> None:
    certificate, words = UNUSABLE[name]
    with pytest.raises(AuthorityRefused, match=words) as refused:
        issued(answered(asked(), certificate, ("Ready", "True", "Issued", "")), CA, KEY, NOW)
    assert refused.value.reason == REFUSED
    assert "ClusterIssuer org" in str(refused.value)
