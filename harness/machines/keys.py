"""One SSH key pair per cell, made for it; the private key never leaves the cell's directory."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make_key_pair(private_key: Path, *, comment: str) -> str:
    """Write a new private key (OpenSSH format, 0600) unless it is there, and return the public key's line."""
    if not private_key.exists():
        made = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        handle = os.open(private_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(made)
    loaded = serialization.load_ssh_private_key(private_key.read_bytes(), password=None)
    public = loaded.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} {comment}"
