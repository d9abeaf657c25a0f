"""A private key out of a Secret, checked before a machine is asked with it."""

from __future__ import annotations

import base64

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from harness.kube.client import Json
from harness.kube.objects import dig


class KeyUnusable(Exception):
    """A Secret's key cannot be used: `missing`, or there and no private key."""

    def __init__(self, message: str, *, missing: bool) -> None:
        super().__init__(message)
        self.message = message
        self.missing = missing


def key_of_secret(secret: Json | None, name: str, key: str) -> bytes:
    """Return the private key in a Secret, as ssh reads it from a file.

    Args:
        secret: as the API returned it; None when there is none of that name.
        name, key: of the Secret, and of the entry in its data.

    Raises:
        KeyUnusable: with what to do.
    """
    if secret is None:
        make = f"kubectl create secret generic {name} --from-file={key}=PRIVATE_KEY_FILE"
        raise KeyUnusable(f"there is no Secret {name} in this namespace; make it: {make}", missing=True)
    encoded = dig(secret, "data", key)
    if not encoded:
        found = ", ".join(sorted(dig(secret, "data") or {})) or "nothing"
        remedy = f"add the private key as {key}, or correct spec.keyRef.key"
        raise KeyUnusable(f"Secret {name} has no {key} (it has: {found}); {remedy}", missing=True)
    return _checked(base64.b64decode(encoded), f"{key} of Secret {name}")


def _checked(content: bytes, what: str) -> bytes:
    """Return a key with a line end at its end, which ssh insists on."""
    load = serialization.load_ssh_private_key if b"BEGIN OPENSSH" in content else serialization.load_pem_private_key
    try:
        load(content, password=None)
    except TypeError as error:
        remedy = "give a key without a passphrase"
        raise KeyUnusable(f"{what} is a private key with a passphrase; {remedy}", missing=False) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        remedy = "give what ssh-keygen wrote, not the .pub file"
        raise KeyUnusable(f"{what} is not a private key that ssh can use; {remedy}", missing=False) from error
    return content.rstrip(b"\n") + b"\n"
