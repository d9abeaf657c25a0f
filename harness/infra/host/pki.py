"""Certificates and kubeconfigs of an instance: two authorities, one leaf per purpose, the service account key pair.

Everything is kept in one folder and made again only when it is missing, nearly expired, or for another address.
Kubeconfigs are self-contained, so that a person can copy one to another machine.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harness.files import write_atomically

LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
BACKDATE = timedelta(hours=1)  # clocks of guests may lag behind the host's
CA = "ca"
FRONT_PROXY_CA = "front-proxy-ca"
SERVICE_ACCOUNT_KEY = "service-account"
SYSTEM_ACCOUNTS = "system:serviceaccount:kube-system"  # whose roles are part of every API server
VIRT_API = "virt-api.kubevirt.svc"  # what an API server expects of KubeVirt's aggregated API

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Leaf:
    """A certificate to issue: file name stem, subject, what it is for, and names that it alone is valid for."""

    stem: str
    common_name: str
    organization: str = ""
    server: bool = False
    client: bool = False
    issuer: str = CA
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Issued:
    """Where a certificate and its key lie."""

    certificate: Path
    key: Path


def leaves(node: str) -> tuple[Leaf, ...]:
    """Return the certificates of a control plane; names and groups are those that Kubernetes' RBAC defaults expect."""
    masters = "system:masters"
    return (
        Leaf("etcd", "etcd", server=True, client=True),
        Leaf("etcd-client", "kube-apiserver-etcd-client", client=True),
        Leaf("kube-apiserver", "kube-apiserver", server=True),
        Leaf("kubelet-client", "kube-apiserver-kubelet-client", masters, client=True),
        Leaf("front-proxy-client", "front-proxy-client", client=True, issuer=FRONT_PROXY_CA),
        Leaf("kube-controller-manager", "system:kube-controller-manager", server=True, client=True),
        Leaf("kube-scheduler", "system:kube-scheduler", server=True, client=True),
        Leaf("namespace-controller", f"{SYSTEM_ACCOUNTS}:namespace-controller", "system:serviceaccounts", client=True),
        Leaf("kubevirt", f"vmatrix:kubevirt:{node}", masters, client=True),
        Leaf("webhook", "kubevirt-webhook", server=True, names=(VIRT_API,)),
        Leaf("admin", "vmatrix-admin", masters, client=True),
        Leaf("pods-kubelet", f"system:node:{node}-pods", "system:nodes", client=True),
        Leaf("pods-proxy", "system:kube-proxy", client=True),
    )


def ensure(folder: Path, *, addresses: Sequence[str], names: Sequence[str], node: str) -> bool:
    """Make or renew what is missing or does not fit; return whether anything changed.

    Args:
        folder: gets <stem>.crt and <stem>.key per certificate, <ca>.crt/.key, and service-account.key/.pub.
        addresses, names: what the serving certificates are valid for.
        node: the Node that the machines run on.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    changed = False
    renewed: set[str] = set()
    for authority in (CA, FRONT_PROXY_CA):
        if not _fits(issued(folder, authority), None, authority, frozenset()):
            _make_authority(folder, authority)
            renewed.add(authority)
    wanted = frozenset(addresses) | frozenset(names)
    for leaf in leaves(node):
        expected = wanted | frozenset(leaf.names) if leaf.server else frozenset()
        files = issued(folder, leaf.stem)
        if leaf.issuer in renewed or not _fits(files, issued(folder, leaf.issuer), leaf.common_name, expected):
            _make_leaf(folder, leaf, addresses, (*names, *leaf.names))
            changed = True
    key, public = folder / f"{SERVICE_ACCOUNT_KEY}.key", folder / f"{SERVICE_ACCOUNT_KEY}.pub"
    if not (key.is_file() and public.is_file()):
        private = ec.generate_private_key(ec.SECP256R1())
        write_atomically(key, _pem(private), mode=0o600)
        form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        write_atomically(public, private.public_key().public_bytes(*form), mode=0o600)
        changed = True
    return changed or bool(renewed)


def issued(folder: Path, stem: str) -> Issued:
    """Return where the certificate of that name and its key lie."""
    return Issued(folder / f"{stem}.crt", folder / f"{stem}.key")


def _fits(files: Issued, issuer: Issued | None, common_name: str, expected: frozenset[str]) -> bool:
    """Tell whether a certificate exists, is long valid, comes from the issuer and covers what is expected."""
    try:
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
        if issuer is not None:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(issuer.certificate.read_bytes()))
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    subject = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return (
        key.public_key() == certificate.public_key()
        and certificate.not_valid_after_utc - datetime.now(UTC) > RENEW_BEFORE
        and [a.value for a in subject] == [common_name]
        and expected <= _covered(certificate)
    )


def _covered(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = {str(a) for a in names.get_values_for_type(x509.IPAddress)}
    return frozenset(addresses | set(names.get_values_for_type(x509.DNSName)))


def _make_authority(folder: Path, name: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _store(issued(folder, name), key, builder.sign(key, hashes.SHA256()))


def _make_leaf(folder: Path, leaf: Leaf, addresses: Sequence[str], names: Sequence[str]) -> None:
    authority = issued(folder, leaf.issuer)
    ca = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    ca_key = serialization.load_pem_private_key(authority.key.read_bytes(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - _fits let nothing else through
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, leaf.common_name)]
    if leaf.organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, leaf.organization))
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] * leaf.server + [ExtendedKeyUsageOID.CLIENT_AUTH] * leaf.client
    builder = (
        _builder(x509.Name(attributes), ca.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        # OpenSSL's strict checks, which are Python's default since 3.13, want to know whose key signed it
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    if leaf.server:
        covered: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(a)) for a in addresses]
        covered += [x509.DNSName(n) for n in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(covered), critical=False)
    _store(issued(folder, leaf.stem), key, builder.sign(ca_key, hashes.SHA256()))


def _builder(subject: x509.Name, issuer: x509.Name, key: Key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    enciphering = ("key_encipherment", "data_encipherment", "encipher_only", "decipher_only")
    none = dict.fromkeys(("content_commitment", "key_agreement", *enciphering), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=authority, crl_sign=authority, **none)


def _store(files: Issued, key: Key, certificate: x509.Certificate) -> None:
    files.certificate.unlink(missing_ok=True)  # never a certificate beside another's key
    write_atomically(files.key, _pem(key), mode=0o600)
    write_atomically(files.certificate, certificate.public_bytes(serialization.Encoding.PEM), mode=0o600)


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def ensure_kubeconfig(
    path: Path, *, cluster: tuple[str, Mapping[str, Any]], user: tuple[str, Mapping[str, Any]]
) -> None:
    """Write a kubeconfig of one cluster and one user (names and contents), unless the file has that very text.

    The namespace that somebody has chosen in it (`kubectl config set-context`) stays.
    """
    context = {"cluster": cluster[0], "user": user[0], **_chosen_namespace(path, cluster[0])}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster[0], "cluster": dict(cluster[1])}],
        "users": [{"name": user[0], "user": dict(user[1])}],
        "contexts": [{"name": cluster[0], "context": context}],
        "current-context": cluster[0],
    }
    text = yaml.safe_dump(config, sort_keys=False)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text, mode=0o600)


def _chosen_namespace(path: Path, context: str) -> dict[str, str]:
    """Return the namespace of a context in a file, if there is one; nothing of a file that is damaged."""
    try:
        known = yaml.safe_load(path.read_text(encoding="utf-8"))["contexts"]
        chosen = next((one["context"]["namespace"] for one in known if one["name"] == context), None)
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return {}
    return {"namespace": str(chosen)} if chosen else {}


def ensure_component_kubeconfig(path: Path, *, server: str, folder: Path, stem: str, cluster: str) -> None:
    """Write a kubeconfig for the client certificate `stem` of the folder, unless it is there."""
    client, authority = issued(folder, stem), issued(folder, CA).certificate
    keys = {"client-certificate-data": _encoded(client.certificate), "client-key-data": _encoded(client.key)}
    about = {"server": server, "certificate-authority-data": _encoded(authority)}
    ensure_kubeconfig(path, cluster=(cluster, about), user=(f"{stem}@{cluster}", keys))


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
