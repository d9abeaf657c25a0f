"""Certificates as the checks see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from harness.validate.judge.mismatch import Mismatch


@dataclass(frozen=True)
class Certificate:
    """A certificate of a machine: where it lies, whom it names (RFC 4514), when it ends, its alternative names."""

    path: str
    subject: str
    issuer: str
    not_after: datetime
    names: tuple[str, ...]


def certificate_of(path: str, pem: str) -> Certificate:
    """Read one PEM certificate."""
    read = x509.load_pem_x509_certificate(pem.encode())
    try:
        extension = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = tuple(str(name.value) for name in extension)
    except x509.ExtensionNotFound:
        names = ()
    return Certificate(
        path=path,
        subject=read.subject.rfc4514_string(),
        issuer=read.issuer.rfc4514_string(),
        not_after=read.not_valid_after_utc,
        names=names,
    )


def expiring(where: str, certificates: tuple[Certificate, ...], *, now: datetime, margin: timedelta) -> list[Mismatch]:
    """Return the certificates that end within `margin`."""
    return [
        Mismatch(
            where,
            f"{certificate.path} ({certificate.subject}) valid for {margin.days} more days",
            f"it ends {certificate.not_after:%Y-%m-%d %H:%M} UTC",
        )
        for certificate in certificates
        if certificate.not_after - now < margin
    ]
