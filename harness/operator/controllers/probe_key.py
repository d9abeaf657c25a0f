"""A private key out of a Secret, checked before a machine is asked with it."""

from __future__ import annotations

import base64

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.operator.api.machine import KeyRef
from harness.operator.controllers.probe import ProbeTrouble, TroubleReason


def key_of_secret(secret: Json | None, reference: KeyRef) -> bytes | ProbeTrouble:
    """Return the private key in a Secret, as ssh reads it from a file; or why it cannot be used, and what to do.

    Args:
        secret: as the API returned it; None when there is none of that name.
    """
    name, key = reference.name, reference.key
    if secret is None:
        make = f"kubectl create secret generic {name} --from-file={key}=PRIVATE_KEY_FILE"
        return ProbeTrouble(TroubleReason.KEY_MISSING, f"there is no Secret {name} in this namespace; make it: {make}")
    encoded = dig(secret, "data", key)
    if not encoded:
        found = ", ".join(sorted(dig(secret, "data") or {})) or "nothing"
        remedy = f"add the private key as {key}, or correct spec.keyRef.key"
        return ProbeTrouble(TroubleReason.KEY_MISSING, f"Secret {name} has no {key} (it has: {found}); {remedy}")
    content = base64.b64decode(encoded)
    load = serialization.load_ssh_private_key if b"BEGIN OPENSSH" in content else serialization.load_pem_private_key
    try:
        load(content, password=None)
    except TypeError:
        wrong = "is a private key with a passphrase; give a key without a passphrase"
    except (ValueError, UnsupportedAlgorithm):
        wrong = "is not a private key that ssh can use; give what ssh-keygen wrote, not the .pub file"
    else:
        return content.rstrip(b"\n") + b"\n"  # ssh insists on the line end
    return ProbeTrouble(TroubleReason.INVALID_KEY, f"{key} of Secret {name} {wrong}")
