"""Names and numbers as Kubernetes' own libraries judge them."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
_MAC = re.compile(
    r"([0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2})"
)
_FACTORS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
}


def label_problems(name: str) -> list[str]:
    """Say why a name is no RFC 1123 label; empty when it is one."""
    found = [f"must be no more than {_LABEL_LENGTH} characters"] if len(name) > _LABEL_LENGTH else []
    if not re.fullmatch(_LABEL, name):
        found.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            f"'{_LABEL}')"
        )
    return found


def subdomain_problems(name: str) -> list[str]:
    """Say why a name is no RFC 1123 subdomain; empty when it is one."""
    found = [f"must be no more than {_SUBDOMAIN_LENGTH} characters"] if len(name) > _SUBDOMAIN_LENGTH else []
    if not re.fullmatch(_SUBDOMAIN, name):
        found.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            f"'{_SUBDOMAIN}')"
        )
    return found


def is_mac(address: str) -> bool:
    """Tell whether a text is a MAC address of six bytes in one of the usual notations."""
    return _MAC.fullmatch(address) is not None


def quantity(text: object) -> Decimal:
    """Return what a quantity ("2Gi", "500m", 4) stands for; 0 for nothing or nonsense (the schema's matter)."""
    match = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]{0,2})", str(text or "0"))
    if match is None or match[2] not in _FACTORS:
        return Decimal(0)
    try:
        return Decimal(match[1]) * _FACTORS[match[2]]
    except InvalidOperation:
        return Decimal(0)
