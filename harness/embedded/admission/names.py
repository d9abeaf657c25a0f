"""Names and numbers as Kubernetes' own libraries judge them."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from harness.kube import objects

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_LENGTH = 63
_MAC = re.compile(
    r"([0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2})"
)


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


def is_mac(address: str) -> bool:
    """Tell whether a text is a MAC address of six bytes in one of the usual notations."""
    return _MAC.fullmatch(address) is not None


def quantity(text: object) -> Decimal:
    """Return what a quantity ("2Gi", "500m", 4) stands for; 0 for nothing or nonsense (the schema's matter)."""
    try:
        return objects.quantity(str(text or 0))
    except (ValueError, InvalidOperation):
        return Decimal(0)
