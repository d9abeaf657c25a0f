"""A certificate of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature


@dataclass(frozen=True)
class Certificate:
    """Where a certificate lies, its subject (RFC 4514), its beginning and end, its alternative names, its text."""

    path: str
    subject: str
    not_before: datetime
    not_after: datetime
    names: tuple[str, ...]
    pem: str = ""

    def signed_by(self, authority: Certificate) -> bool:
        """Tell whether an authority has signed it."""
        mine, theirs = (x509.load_pem_x509_certificate(one.pem.encode()) for one in (self, authority))
        try:
            mine.verify_directly_issued_by(theirs)
        except (InvalidSignature, TypeError, ValueError):
            return False
        return True


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
        not_before=read.not_valid_before_utc,
        not_after=read.not_valid_after_utc,
        names=names,
        pem=pem.strip(),
    )
