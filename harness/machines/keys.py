"""SSH key pairs that are made for a cell or a cluster; a cell's private key never leaves its directory."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make_key_pair(private_key: Path, *, comment: str) -> str:
    """Write a new private key (OpenSSH format, 0600) unless it is there, and return the public key's line."""
    if not private_key.exists():
        handle = os.open(private_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(new_private_key())
    return public_line(private_key.read_bytes(), comment)


def new_private_key() -> bytes:
    """Return a new private key in OpenSSH's format."""
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


def public_line(private_key: bytes, comment: str) -> str:
    """Return the public key of a private one, as in authorized_keys. Raises ValueError when it is none."""
    load = serialization.load_ssh_private_key if b"BEGIN OPENSSH" in private_key else serialization.load_pem_private_key
    loaded = load(private_key, password=None)
    public = loaded.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} {comment}"
