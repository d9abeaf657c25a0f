"""Certificates that vmatrix issues itself: authorities, what they sign, and which names that covers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATE = timedelta(hours=1)  # clocks of guests and of API servers may lag behind this one
SIGNERS_BACKDATE = timedelta(minutes=5)  # kube-controller-manager's, so that a short validity stays one
Key = ec.EllipticCurvePrivateKey
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
Pair = tuple[x509.Certificate, Key]


def authority(common_name: str, now: datetime, lifetime: timedelta, *, kubeadm: bool = False) -> Pair:
    """Return a new authority, which signs leaves alone.

    Args:
        kubeadm: make it as kubeadm makes its own, which may sign CAs and data and has an alternative name.
    """
    key = new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    made = (
        _builder(name, name, key, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None if kubeadm else 0), critical=True)
        .add_extension(_usage(authority=True, kubeadm=kubeadm), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if kubeadm:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(common_name)]), critical=False)
    return made.sign(key, hashes.SHA256()), key


def leaf(
    issuer: Pair,
    common_name: str,
    *,
    now: datetime,
    lifetime: timedelta,
    organization: str = "",
    names: Iterable[str] | None = None,
    client: bool = False,
) -> Pair:
    """Return a certificate that an authority signs, and its key.

    Args:
        names: host names and addresses that a server with it has; None for a client alone.
        client: whether a client may show it.
    """
    signer, key = issuer[1], new_key()
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] * (names is not None) + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
    builder = (
        _builder(x509.Name(attributes), issuer[0].subject, key, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        # OpenSSL's strict checks, which are Python's default since 3.13, want to know whose key signed it
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names is not None:
        covered_names = x509.SubjectAlternativeName([_name(name) for name in sorted(set(names))])
        builder = builder.add_extension(covered_names, critical=False)
    return builder.sign(signer, hashes.SHA256()), key


def request(common_name: str, organizations: Iterable[str]) -> tuple[bytes, bytes]:
    """Return a request for a certificate of a client, and its key, both as PEM."""
    key = new_key()
    return request_for(common_name, key, organizations), pem_of(key)


def request_for(common_name: str, key: SigningKey, organizations: Iterable[str] = ()) -> bytes:
    """Return a request for a certificate of a key, as PEM."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def first(chain: bytes) -> bytes:
    """Return the first certificate of a chain, as PEM. Raises ValueError where there is none."""
    return pem_of(x509.load_pem_x509_certificates(chain)[0])


def signed(asked: bytes, issuer: x509.Certificate, key: SigningKey, now: datetime, lifetime: timedelta) -> bytes:
    """Return what a CA signs for a client's request, as a cluster's own signer does (kube-apiserver-client).

    Args:
        asked: the request, as PEM.  lifetime: which ends with the CA at the latest.
    """
    read = x509.load_pem_x509_csr(asked)
    made = (
        x509.CertificateBuilder()
        .subject_name(read.subject)
        .issuer_name(issuer.subject)
        .public_key(read.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SIGNERS_BACKDATE)
        .not_valid_after(min(now + lifetime, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def covered(certificate: x509.Certificate) -> frozenset[str]:
    """Return the host names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset({*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))})


def signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Tell whether an authority has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):  # of another name, or a key of another kind
        return False
    return True


def new_key() -> Key:
    """Return a new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_of(pem: bytes) -> Key:
    """Read a private key of ours. Raises ValueError when it is of another kind."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind")
    return key


def pem_of(made: x509.Certificate | Key) -> bytes:
    """Return a certificate or a private key as PEM."""
    if isinstance(made, x509.Certificate):
        return made.public_bytes(serialization.Encoding.PEM)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.private_bytes(*form)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    begin = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return (
        begin.serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + lifetime)
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, authority: bool, kubeadm: bool = False) -> x509.KeyUsage:
    never = ("content_commitment", "key_agreement", "key_encipherment", "data_encipherment")
    none = dict.fromkeys((*never, "encipher_only", "decipher_only"), False)
    lists = authority and not kubeadm
    return x509.KeyUsage(digital_signature=kubeadm or not authority, key_cert_sign=authority, crl_sign=lists, **none)
