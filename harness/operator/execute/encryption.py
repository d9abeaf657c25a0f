"""Encrypted snapshots: AES-256-GCM in chunks, so that neither side has the whole of it in memory.

    magic     16 bytes   vmatrix-etcd-v1 and a newline
    salt      32 bytes   random; HKDF-SHA-256 of key and salt gives the key of this file
    chunks    each 1 MiB of the snapshot, and 16 bytes of tag; the last one may be shorter, and is never left out

The nonce of a chunk is its number (11 bytes, the first is 0) and 1 for the last chunk, 0 for all others. So no nonce is
used twice with a key, and a file that is cut, or whose chunks have changed places, is refused. The additional data are
magic and salt. It is the construction STREAM of https://eprint.iacr.org/2015/189, which age has as well.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from harness.errors import BadInput

MAGIC = b"vmatrix-etcd-v1\n"
SALT_BYTES, KEY_BYTES, TAG_BYTES = 32, 32, 16
CHUNK = 1 << 20
COUNTER_BYTES = 11
INFO = b"vmatrix-etcd-snapshot"
HOW = "head -c 32 /dev/urandom | base64"
DAMAGED = "the encrypted snapshot is damaged, or was encrypted with another key"


@dataclass(frozen=True)
class EncryptedSnapshot:
    """Seals and opens snapshots with one key."""

    key: bytes = field(repr=False)

    @staticmethod
    def of_file(path: Path) -> EncryptedSnapshot:
        """Return what works with the key of a file: 32 bytes, raw or in base64.

        Raises:
            BadInput: it has no such key.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(
                f"the key of snapshots cannot be read: {error.strerror}", hint="see s3.encryptionKeyRef"
            ) from error
        if len(content) == KEY_BYTES:
            return EncryptedSnapshot(content)
        try:
            key = base64.b64decode(content.strip(), validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise BadInput(
                f"the key of snapshots is not {KEY_BYTES} bytes, raw or in base64",
                hint=f"make one with `{HOW}`, and put it into the Secret of s3.encryptionKeyRef",
            )
        return EncryptedSnapshot(key)

    def seal(self, source: Path, target: Path) -> None:
        """Write a file's content encrypted to another file."""
        salt = os.urandom(SALT_BYTES)
        cipher, head = self._cipher(salt), MAGIC + salt
        with source.open("rb") as plain, target.open("wb") as sealed:
            target.chmod(0o600)
            sealed.write(head)
            number, chunk = 0, plain.read(CHUNK)
            while True:
                following = plain.read(CHUNK)
                sealed.write(cipher.encrypt(_nonce(number, last=not following), chunk, head))
                if not following:
                    return
                number, chunk = number + 1, following

    def opened(self, content: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what was encrypted; what is yielded was not changed, but is whole only once all of it was.

        Args:
            content: of the encrypted file, in pieces of any size.

        Raises:
            BadInput: it is damaged, or was encrypted with another key, or not at all.
        """
        pieces = _Pieces(content)
        head = pieces.take(len(MAGIC) + SALT_BYTES)
        if not head.startswith(MAGIC) or len(head) < len(MAGIC) + SALT_BYTES:
            raise BadInput(
                "the snapshot is not encrypted", hint="remove s3.encryptionKeyRef, or name another EtcdBackup"
            )
        cipher, number = self._cipher(head[len(MAGIC) :]), 0
        while True:
            chunk = pieces.take(CHUNK + TAG_BYTES)
            last = pieces.at_end()
            try:
                yield cipher.decrypt(_nonce(number, last=last), chunk, head)
            except InvalidTag as error:
                raise BadInput(DAMAGED, hint="correct the key in the Secret of s3.encryptionKeyRef") from error
            if last:
                return
            number += 1

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=INFO).derive(self.key))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(COUNTER_BYTES, "big") + bytes([last])


class _Pieces:
    """A content that is taken in pieces of another size than it comes in."""

    def __init__(self, content: Iterator[bytes]) -> None:
        self._content = content
        self._rest = b""

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        while len(self._rest) < size and (more := next(self._content, b"")):
            self._rest += more
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def at_end(self) -> bool:
        """Tell whether nothing is left."""
        if not self._rest:
            self._rest = next(self._content, b"")
        return not self._rest
