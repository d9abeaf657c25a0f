"""When certificates expire, and which of them an operation renews."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.operator.controllers.certificate_dates import dates

START = datetime(2026, 1, 1, tzinfo=UTC)
PLANE = ("/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/manifests/etcd.yaml")
PKI = "/etc/kubernetes/pki"


def pem(days: int) -> bytes:
    """Return a certificate that expires so many days after the start."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one")])
    made = x509.CertificateBuilder(name, name, key.public_key(), days, START, START + timedelta(days=days))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_the_first_of_both_kinds_is_told() -> None:
    found = {
        f"{PKI}/apiserver.crt": pem(20),
        f"{PKI}/etcd/server.crt": pem(10),
        "/etc/kubernetes/admin.conf": pem(30),
        f"{PKI}/ca.crt": pem(5),
        "/var/lib/kubelet/pki/kubelet-client-current.pem": pem(3),
    }
    assert dates(found, PLANE) == {
        "firstExpiry": "2026-01-11T00:00:00Z",
        "file": f"{PKI}/etcd/server.crt",
        "otherExpiry": "2026-01-04T00:00:00Z",
        "otherFile": "/var/lib/kubelet/pki/kubelet-client-current.pem",
    }


def test_nobody_renews_those_of_external_etcd() -> None:
    found = {f"{PKI}/etcd/server.crt": pem(10), f"{PKI}/apiserver-etcd-client.crt": pem(11)}
    assert dates(found, ()) == {"otherExpiry": "2026-01-11T00:00:00Z", "otherFile": f"{PKI}/etcd/server.crt"}
    assert "firstExpiry" not in (dates(found, PLANE[:1]) or {})


def test_of_several_certificates_in_a_file_the_first_counts() -> None:
    found = dates({f"{PKI}/apiserver.crt": pem(20) + pem(10)}, PLANE)
    assert found == {"firstExpiry": "2026-01-11T00:00:00Z", "file": f"{PKI}/apiserver.crt"}


def test_a_file_that_holds_none_says_nothing() -> None:
    assert dates({f"{PKI}/apiserver.crt": b"", f"{PKI}/ca.crt": b"-----BEGIN CERTIFICATE-----\n"}, PLANE) is None
    assert dates({}, PLANE) is None
