"""Certificates and kubeconfigs of an instance: two authorities, one leaf per purpose, the service account key pair.

Everything is kept in one folder and made again only when it is missing, nearly expired, or for another address.
Kubeconfigs are self-contained, so that a person can copy one to another machine.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from harness.files import write_atomically
from harness.kube import certificates
from harness.kube.certificates import Key, key_of, pem_of

LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
CA = "ca"
FRONT_PROXY_CA = "front-proxy-ca"
SERVICE_ACCOUNT_KEY = "service-account"
SYSTEM_ACCOUNTS = "system:serviceaccount:kube-system"  # whose roles are part of every API server
VIRT_API = "virt-api.kubevirt.svc"  # what an API server expects of KubeVirt's aggregated API


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
    names_wanted = frozenset(addresses) | frozenset(names)
    for leaf in leaves(node):
        expected = names_wanted | frozenset(leaf.names) if leaf.server else frozenset()
        files = issued(folder, leaf.stem)
        if leaf.issuer in renewed or not _fits(files, issued(folder, leaf.issuer), leaf.common_name, expected):
            _make_leaf(folder, leaf, (*addresses, *names, *leaf.names))
            changed = True
    key, public = folder / f"{SERVICE_ACCOUNT_KEY}.key", folder / f"{SERVICE_ACCOUNT_KEY}.pub"
    if not (key.is_file() and public.is_file()):
        private = certificates.new_key()
        write_atomically(key, pem_of(private), mode=0o600)
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
        key = key_of(files.key.read_bytes())
        signer = x509.load_pem_x509_certificate(issuer.certificate.read_bytes()) if issuer is not None else None
    except (OSError, ValueError, TypeError):
        return False
    subject = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return (
        key.public_key() == certificate.public_key()
        and certificate.not_valid_after_utc - datetime.now(UTC) > RENEW_BEFORE
        and [a.value for a in subject] == [common_name]
        and expected <= certificates.covered(certificate)
        and (signer is None or certificates.signed_by(certificate, signer))
    )


def _make_authority(folder: Path, name: str) -> None:
    certificate, key = certificates.authority(name, datetime.now(UTC), LIFETIME)
    _store(issued(folder, name), key, certificate)


def _make_leaf(folder: Path, leaf: Leaf, names: Sequence[str]) -> None:
    files = issued(folder, leaf.issuer)
    signer = x509.load_pem_x509_certificate(files.certificate.read_bytes()), key_of(files.key.read_bytes())
    certificate, key = certificates.leaf(
        signer,
        leaf.common_name,
        now=datetime.now(UTC),
        lifetime=LIFETIME,
        organization=leaf.organization,
        names=names if leaf.server else None,
        client=leaf.client,
    )
    _store(issued(folder, leaf.stem), key, certificate)


def _store(files: Issued, key: Key, certificate: x509.Certificate) -> None:
    files.certificate.unlink(missing_ok=True)  # never a certificate beside another's key
    write_atomically(files.key, pem_of(key), mode=0o600)
    write_atomically(files.certificate, pem_of(certificate), mode=0o600)


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
        chosen = next((entry["context"]["namespace"] for entry in known if entry["name"] == context), None)
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
