"""A kubelet gets a certificate of its own node's name and address, and of nothing else."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.playbooks.playbook_files import module

JUDGE = module("filter_plugins/judged_requests.py")
MACHINES = [{"name": "w-0", "address": "10.0.0.3"}, {"name": "cp-0", "address": "10.0.0.2"}]
USER = "system:node:w-0"
USAGES = ["digital signature", "server auth"]


def request(
    *names: x509.GeneralName, subject: Sequence[tuple[Any, str]] = (), more: bool = False, spoilt: bool = False
) -> str:
    parts = subject or [(NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, USER)]
    made = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if more:
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    data = signed.public_bytes(serialization.Encoding.DER)
    if spoilt:
        data = data[:-1] + bytes([data[-1] ^ 1])
    body = base64.encodebytes(data).decode()
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"
    return base64.b64encode(pem.encode()).decode()


NAME, ADDRESS = x509.DNSName("w-0"), x509.IPAddress(ipaddress.ip_address("10.0.0.3"))
OTHER = x509.IPAddress(ipaddress.ip_address("10.0.0.2"))
ADMIN = [(NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, USER)]


def judged(text: str, **other: Any) -> dict[str, list[str]]:
    spec = {
        "signerName": "kubernetes.io/kubelet-serving",
        "username": USER,
        "groups": ["system:nodes", "system:authenticated"],
        "usages": USAGES,
        "request": text,
        **other,
    }
    asked = {"metadata": {"name": "csr-1"}, "spec": spec}
    decided = {"metadata": {"name": "csr-0"}, "spec": spec, "status": {"conditions": [{"type": "Approved"}]}}
    found: dict[str, list[str]] = JUDGE.judged_requests([decided, asked], MACHINES)
    return found


@pytest.mark.parametrize("names", [(NAME, ADDRESS), (ADDRESS,), (NAME,)])
def test_a_request_for_ones_own_name_and_address_is_right(names: tuple[x509.GeneralName, ...]) -> None:
    assert judged(request(*names)) == {"right": ["csr-1"], "wrong": []}
    assert judged(request(*names), usages=["key encipherment", *USAGES])["right"] == ["csr-1"]


@pytest.mark.parametrize(
    ("text", "other", "words"),
    [
        (request(NAME, OTHER), {}, "it names 10.0.0.2, which is not w-0 or its address 10.0.0.3"),
        (request(x509.DNSName("cp-0")), {}, "it names cp-0, which is not w-0"),
        (request(NAME, x509.DNSName("kubernetes.default")), {}, "it names kubernetes.default"),
        (request(NAME, x509.RFC822Name("a@example.com")), {}, ", which is not w-0"),
        (request(NAME, x509.UniformResourceIdentifier("spiffe://a")), {}, ", which is not w-0"),
        (request(), {}, "it names nothing"),
        (request(NAME, subject=ADMIN), {}, "its subject is"),
        (request(NAME, more=True), {}, "it asks for the extensions 2.5.29.19"),
        (request(NAME, spoilt=True), {}, "signature is wrong"),
        (request(NAME), {"username": "system:node:w-9"}, "w-9 is not a machine of the inventory"),
        (request(NAME), {"username": "system:node:cp-0"}, "its subject is"),
        (request(NAME), {"username": "mallory"}, "it is not of a kubelet"),
        (request(NAME), {"groups": ["system:authenticated"]}, "it is not of a kubelet"),
        (request(NAME), {"usages": ["client auth", "server auth"]}, "it is for client auth, server auth"),
        (request(NAME), {"usages": ["digital signature"]}, "it is for digital signature"),
        (request(NAME), {"signerName": "kubernetes.io/kube-apiserver-client"}, "its signer is"),
        (base64.b64encode(b"no request").decode(), {}, "it cannot be read"),
    ],
)
def test_other_requests_are_left_alone_with_the_reason(text: str, other: dict[str, Any], words: str) -> None:
    found = judged(text, **other)
    assert found["right"] == []
    assert words in found["wrong"][0]


def test_a_machine_of_both_ip_families_may_name_both_addresses() -> None:
    both = request(
        NAME, x509.IPAddress(ipaddress.ip_address("10.0.0.3")), x509.IPAddress(ipaddress.ip_address("fd00::3"))
    )
    assert judged(both)["right"] == []
    spec = {"username": USER, "groups": ["system:nodes"], "usages": USAGES, "request": both}
    spec |= {"signerName": "kubernetes.io/kubelet-serving"}
    machines = [{**machine, "ipv6_address": "fd00::3"} for machine in MACHINES[:1]]
    asked = {"metadata": {"name": "csr-1"}, "spec": spec}
    assert JUDGE.judged_requests([asked], machines) == {"right": ["csr-1"], "wrong": []}
