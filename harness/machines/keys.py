"""SSH keys: pairs that are made for a cell or a cluster, and files that only this process may read.

A process holds a lock on its folder's `lock`. Whoever starts takes away the folders whose lock is free.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.files import if_unlocked


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


PREFIX = "vmatrix-private-"
LOCK = "lock"


class PrivateFiles:
    """A folder of this process (0700) with a folder for each use in it."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._held = ExitStack()
        self.sweep()
        made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=self._parent))
        self._held.enter_context(if_unlocked(made / LOCK))  # before a sweep can see the folder
        self.folder = made.rename(self._parent / made.name.removeprefix("."))

    def sweep(self) -> None:
        """Take away what killed processes of this user left."""
        for folder in self._parent.glob(f"{PREFIX}*/"):
            if (folder / LOCK).is_file():
                with suppress(OSError), if_unlocked(folder / LOCK) as free:  # another user's, or one that just went
                    if free:
                        shutil.rmtree(folder)

    @contextmanager
    def use(self) -> Iterator[Path]:
        """Give a folder that goes, with what is in it, at the end of the body."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield Path(folder)

    def close(self) -> None:
        """Take everything away; can be called twice."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._held.close()
