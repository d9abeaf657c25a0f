"""Certificates of a server of our own: an authority and what it has signed, made and renewed by functions of the time.

An authority that gets old gets a successor, which is believed before anything is signed by it: `bundle` has both until
the old one has expired.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME, LIFETIME = timedelta(days=1825), timedelta(days=90)
RENEWED = 0.6  # of its lifetime, at which a certificate is replaced: before two thirds, so that one missed look is none
BACKDATE = timedelta(hours=1)  # clocks of API servers may lag behind this one


@dataclass(frozen=True)
class ServingPair:
    """Of PEM: the authorities that are believed, the one that signs first; its key; the certificate and its key."""

    bundle: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


def begun(common_name: str, names: Iterable[str], now: datetime) -> ServingPair:
    """Return a new authority, and a certificate of it for names and addresses."""
    bundle, key = _authority(common_name, now)
    return _signed(ServingPair(bundle, key, b"", b""), names, now)


def renewed(found: ServingPair, names: Iterable[str], now: datetime, *, believed: bool) -> ServingPair:
    """Return what is to be used from now on; the same while nothing is due, or it cannot be read any more.

    Args:
        believed: whether everybody believes all of the bundle; a new authority signs only then.

    Raises:
        ValueError: it is no such thing.
    """
    authorities = x509.load_pem_x509_certificates(found.bundle)
    if _due(authorities[0], now):
        bundle, key = _authority(str(authorities[0].subject.rfc4514_string()).removeprefix("CN="), now)
        old = b"".join(_pem(one) for one in authorities if one.not_valid_after_utc > now)
        return replace(found, bundle=bundle + old, authority_key=key)
    lasting = b"".join(_pem(one) for one in authorities if one.not_valid_after_utc > now)
    if lasting != found.bundle:
        return replace(found, bundle=lasting)
    certificate = x509.load_pem_x509_certificate(found.certificate)
    fits = _covered(certificate) >= set(names) and _signed_by(certificate, authorities[0])
    return found if not believed or (fits and not _due(certificate, now)) else _signed(found, names, now)


def expires(found: ServingPair) -> datetime:
    """Return until when its certificate is valid."""
    return x509.load_pem_x509_certificate(found.certificate).not_valid_after_utc


def _due(certificate: x509.Certificate, now: datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begin + RENEWED * (end - begin)


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except InvalidSignature:
        return False
    return True


def _covered(certificate: x509.Certificate) -> set[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}


def _authority(common_name: str, now: datetime) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    made = (
        _builder(name, name, key.public_key(), now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(made.sign(key, hashes.SHA256())), _pem_of_key(key)


def _signed(serving: ServingPair, names: Iterable[str], now: datetime) -> ServingPair:
    authority = x509.load_pem_x509_certificates(serving.bundle)[0]
    signer = serialization.load_pem_private_key(serving.authority_key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is of another kind")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhooks")])
    made = (
        _builder(name, authority.subject, key.public_key(), now, LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_name(one) for one in sorted(set(names))]), critical=False)
    )
    return replace(serving, certificate=_pem(made.sign(signer, hashes.SHA256())), key=_pem_of_key(key))


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    begin = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return (
        begin.serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + lifetime)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    never = ("content_commitment", "key_agreement", "key_encipherment", "data_encipherment")
    none = dict.fromkeys((*never, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **none)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form)
