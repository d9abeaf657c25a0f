"""A certificate of another authority, and an authority that differs between machines, are found."""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.validate.findings import Unjudged
from harness.validate.judge.authorities import authority_of, foreign_certificates
from tests.unit.validate import foreign, guests

PKI = "/etc/kubernetes/pki"


def stranger() -> str:
    """Return a certificate that signed itself, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def seen(path: str, of: str) -> list[str]:
    """Return what is found when a file holds a certificate of a stranger."""
    facts = guests.facts(lambda raw: raw["certificates"].update({path: stranger()}), of=of)
    return [str(one) for one in foreign_certificates(facts, guests.expected())]


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in foreign_certificates(guests.facts(), guests.expected())] == []
    assert foreign_certificates({}, guests.expected())


def test_a_certificate_of_another_authority_is_found() -> None:
    (found,) = seen(f"{PKI}/apiserver-kubelet-client.crt", "cp-0")
    assert f"cp-0 {PKI}/apiserver-kubelet-client.crt (CN=kubernetes): expected signed by {PKI}/ca.crt" in found
    (found,) = seen(f"{PKI}/etcd/healthcheck-client.crt", "cp-0")
    assert f"signed by {PKI}/etcd/ca.crt" in found


def test_another_authority_on_a_worker_is_found() -> None:
    assert "w-0 /etc/kubernetes/pki/ca.crt: expected the same authority" in "\n".join(seen(f"{PKI}/ca.crt", "w-0"))


def test_each_certificate_has_the_authority_of_its_folder() -> None:
    assert authority_of(f"{PKI}/etcd/peer.crt", PKI) == f"{PKI}/etcd/ca.crt"
    assert authority_of(f"{PKI}/apiserver-etcd-client.crt", PKI) == f"{PKI}/etcd/ca.crt"
    assert authority_of(f"{PKI}/front-proxy-client.crt", PKI) == f"{PKI}/front-proxy-ca.crt"
    assert authority_of("/var/lib/kubelet/pki/kubelet-client-current.pem", PKI) == f"{PKI}/ca.crt"


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = foreign_certificates(guests.facts(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)
