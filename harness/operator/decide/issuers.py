"""CAs that an issuer of cert-manager signs: what it is asked for, and what came of that; pure.

A CertificateRequest asks once and is answered once. A Certificate would be renewed by cert-manager: another CA, or the
same with another end, that no machine has. https://cert-manager.io/docs/usage/certificaterequest
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime

from cryptography import x509

from harness.kube import certificates
from harness.kube.client import Json
from harness.kube.objects import condition, dig, is_condition
from harness.kube.resources import CERTIFICATE_REQUEST
from harness.operator.api.clusterdeployment import ClusterDeployment, IssuerRef
from harness.operator.decide.authority import (
    CERTIFICATE,
    KEY,
    Authority,
    AuthorityRefused,
    judged,
    lifetime_of,
    plain_key,
    private_key,
)

USAGES = ("digital signature", "key encipherment", "cert sign")  # kubeadm's, of its own CAs
NO_CERT_MANAGER = "NoCertManager"
WAITING = "WaitingForIssuer"
REFUSED = "IssuerRefused"


def issuer_of(wish: ClusterDeployment, authority: Authority) -> IssuerRef | None:
    """Return who signs an authority; None for one that signs itself, and for keys that have no certificate."""
    return wish.spec.authority.issuer_ref if authority.common_name else None


def request_of(wish: ClusterDeployment, authority: Authority, issuer: IssuerRef, secret: str, key: bytes) -> Json:
    """Return the CertificateRequest for an authority. secret: its name, which is the request's, too.

    Args:
        key: the authority's own, as PEM.

    Raises:
        AuthorityRefused: it is not a key.
    """
    csr = certificates.request_for(authority.common_name, private_key(f"Secret {secret}", key))
    spec = {
        "request": base64.b64encode(csr).decode(),
        "isCA": True,
        "usages": [*USAGES],
        "duration": f"{int(lifetime_of(wish).total_seconds()) // 3600}h",
        "issuerRef": issuer.model_dump(by_alias=True),
    }
    return CERTIFICATE_REQUEST.manifest(secret, wish.metadata.namespace, labels={}, spec=spec)


def asks_for(request: Json, wanted: Json) -> bool:
    """Tell whether a CertificateRequest asks the wanted issuer for a certificate of the wanted key."""
    same_issuer = dig(request, "spec", "issuerRef") == wanted["spec"]["issuerRef"]
    return same_issuer and _key_of(request) == _key_of(wanted)


def _key_of(request: Json) -> bytes:
    try:
        csr = x509.load_pem_x509_csr(base64.b64decode(str(dig(request, "spec", "request") or "")))
    except (ValueError, binascii.Error):
        return b""
    return plain_key(csr.public_key())


def issued(request: Json, authority: Authority, key: bytes, now: datetime) -> bytes:
    """Return the certificate that an issuer has signed, as PEM.

    It is the CA alone, without those that issued it: on a machine these would be trusted, too, and whoever has a
    certificate of another CA of the same issuer would be somebody in this cluster.

    Raises:
        AuthorityRefused: it is not there yet, the issuer refuses, or it cannot be used.
    """
    name, issuer = request["metadata"]["name"], _issuer(request)
    again = f"correct that, then delete CertificateRequest {name}: it is made again"
    if (refusal := _refusal(request)) is not None:
        raise AuthorityRefused(REFUSED, f"{issuer} does not sign CertificateRequest {name}: {_line(refusal)}: {again}")
    ready = condition(request, "Ready") or {}
    text = dig(request, "status", "certificate")
    if not text:
        seen = _line(ready) if ready.get("message") else "cert-manager has not answered yet"
        raise AuthorityRefused(WAITING, f"{issuer} has not signed CertificateRequest {name}: {seen}")
    try:
        certificate = certificates.first(base64.b64decode(str(text)))
        judged(authority, name, {CERTIFICATE: certificate, KEY: key}, now)
    except (AuthorityRefused, ValueError) as error:
        said_by = f"{issuer} signed what is not a CA for this cluster: {error}"
        raise AuthorityRefused(REFUSED, f"{said_by}; {again}") from error
    return certificate


def _issuer(request: Json) -> str:
    issuer: Mapping[str, str] = dig(request, "spec", "issuerRef") or {}
    return f"{issuer.get('kind', 'Issuer')} {issuer.get('name', '')}"


def _refusal(request: Json) -> Json | None:
    """Return the condition by which nobody will sign a request, None while somebody may."""
    for kind in ("Denied", "InvalidRequest"):
        if is_condition(request, kind, "True"):
            return condition(request, kind)
    if any(is_condition(request, "Ready", "False", reason) for reason in ("Failed", "Denied")):
        return condition(request, "Ready")
    return None


def _line(answer: Json) -> str:
    return " ".join(str(answer.get("message") or answer.get("reason") or "no reason given").split())
