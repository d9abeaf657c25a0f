"""What a ClusterUser has: bindings in its cluster, a certificate while it is of use, a kubeconfig; pure."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from harness.kube.certificates import signed_by
from harness.kube.failures import Json
from harness.kube.resources import CLUSTER_ROLE_BINDING, RBAC, ROLE_BINDING, Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.resources import GROUP
from harness.operator.api.users import ClusterUser, UserBinding

CERTIFICATE, KEY, KUBECONFIG = "tls.crt", "tls.key", "value"
USER_LABEL = f"{GROUP}/user"  # on what is bound in a guest: UID of the ClusterUser
RENEWED = 2 / 3  # of its validity, at which a certificate is renewed


@dataclass(frozen=True)
class Credentials:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def name_of(user: ClusterUser) -> str:
    """Return a user's name in the cluster."""
    return user.spec.user or user.metadata.name


def secret_name(user: ClusterUser) -> str:
    """Return the name of the Secret with a user's kubeconfig."""
    return f"{user.spec.cluster}-user-{user.metadata.name}"


def bindings_of(user: ClusterUser) -> list[tuple[Resource, Json]]:
    """Return what binds a user's roles in its cluster."""
    return [
        _binding(user, binding, namespace)
        for binding in user.spec.bindings
        for namespace in (binding.namespaces or (None,))
    ]


def _binding(user: ClusterUser, binding: UserBinding, namespace: str | None) -> tuple[Resource, Json]:
    kind = ROLE_BINDING if namespace is not None else CLUSTER_ROLE_BINDING
    about = hashlib.sha256(f"{user.metadata.uid}/{binding.kind}/{binding.name}".encode()).hexdigest()[:10]
    labels = {USER_LABEL: user.metadata.uid, LABEL_MANAGED: MANAGED_BY}
    role = {"apiGroup": RBAC, "kind": binding.kind, "name": binding.name}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": name_of(user)}]
    name = f"vmatrix-user-{user.metadata.name[:40]}-{about}"
    return kind, kind.manifest(name, namespace or "", labels=labels, roleRef=role, subjects=subjects)


def renewal_of(user: ClusterUser, credentials: Credentials | None, authority: bytes, now: datetime) -> datetime | None:
    """Return when a user's certificate is to be renewed; None: now, because it is of no use any more.

    Args:
        credentials: what the Secret has.  authority: the cluster's CAs, as PEM.
    """
    if credentials is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(credentials.certificate)
        key = serialization.load_pem_private_key(credentials.key, password=None)
        issuers = x509.load_pem_x509_certificates(authority)
    except (ValueError, TypeError):
        return None
    if key.public_key() != certificate.public_key() or not any(signed_by(certificate, issuer) for issuer in issuers):
        return None
    names = [_attributes(certificate, oid) for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)]
    if names != [[name_of(user)], sorted(user.spec.groups)]:
        return None
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    turns = begin + (end - begin) * RENEWED
    return turns if now < turns else None


def _attributes(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return sorted(str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid))


def expiry_of(credentials: Credentials) -> datetime:
    """Return when a certificate expires."""
    return x509.load_pem_x509_certificate(credentials.certificate).not_valid_after_utc


def endpoint_of(kubeconfig: bytes, url: str = "") -> Json:
    """Return the cluster of the administrator's kubeconfig: its server and its CAs.

    Args:
        url: of the endpoint, which is the server then; "" for none.
    """
    whole: Any = yaml.safe_load(kubeconfig)
    context = next(entry["context"] for entry in whole["contexts"] if entry["name"] == whole["current-context"])
    cluster: Json = next(entry["cluster"] for entry in whole["clusters"] if entry["name"] == context["cluster"])
    return {**cluster, "server": url} if url else cluster


def kubeconfig_of(user: ClusterUser, endpoint: Json, credentials: Credentials) -> bytes:
    """Return a user's kubeconfig for the cluster that an administrator opens at an endpoint."""
    cluster, name = user.spec.cluster, name_of(user)
    shown = {
        "client-certificate-data": base64.b64encode(credentials.certificate).decode(),
        "client-key-data": base64.b64encode(credentials.key).decode(),
    }
    made = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": endpoint}],
        "users": [{"name": name, "user": shown}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": name}}],
        "current-context": cluster,
    }
    return yaml.safe_dump(made, sort_keys=False).encode()
