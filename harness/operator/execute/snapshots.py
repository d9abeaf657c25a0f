"""Snapshots of etcd in a claim: CLUSTER/NAME.db, and beside it NAME.db.json, without which a snapshot does not count.

The playbook writes a snapshot as `.part`, verifies it and renames it. Then it is read back here, made durable, and only
then described. https://etcd.io/docs/v3.6/op-guide/recovery (a snapshot ends with the SHA-256 of what is before it)
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import BadInput, InfraError
from harness.files import sha256_of, write_atomically
from harness.kube.objects import now
from harness.operator.api.etcd import OperationSnapshot
from harness.operator.decide.observed import RECOVER
from harness.operator.execute.inputs import BACKUP

BLOCK = 512  # the size of a bbolt file is a multiple of it; behind that is the digest
CHUNK = 1 << 20


@dataclass(frozen=True)
class SnapshotStore:
    """The claim of an operation, as a folder; what is kept of `cluster` in it; and the snapshot that it is about."""

    folder: Path
    cluster: str
    about: OperationSnapshot

    @property
    def path(self) -> Path:
        """Return the snapshot's file."""
        return self.folder / self.about.file

    def tidy(self) -> None:
        """Delete files whose EtcdBackups are gone, and what was begun but never ended.

        Raises:
            InfraError: the claim cannot be written.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            gone = [self.folder / file for file in self.about.forget if file != self.about.file]
            for path in (*gone, *self.path.parent.glob("*.part")):
                path.unlink(missing_ok=True)
                described(path).unlink(missing_ok=True)
        except OSError as error:
            raise InfraError(
                f"PersistentVolumeClaim {self.about.claim} cannot be written: {error.strerror}",
                hint="see whether its volume is full, read-only, or another user's",
            ) from error

    def begin(self, operation: str) -> None:
        """Have the place ready for a new snapshot, which there is none of until it is whole; or check the one there.

        Raises:
            InfraError, BadInput: see `tidy` and `check`.
        """
        self.tidy()
        if operation == BACKUP:
            described(self.path).unlink(missing_ok=True)
        elif operation == RECOVER:
            self.check()

    def end(self) -> dict[str, Any]:
        """Return what there is to know of the snapshot that the playbook left, and say it beside it.

        Raises:
            InfraError: what lies in the claim is not what the playbook verified.
        """
        facts = {**self._told(), **self._read_back(), "taken": now()}
        _durable(self.path)
        whose = {"cluster": self.cluster, "backup": self.about.backup, "uid": self.about.uid}
        text = json.dumps({**whose, **facts}, indent=2) + "\n"
        write_atomically(described(self.path), text, mode=0o600, durable=True)
        return facts

    def check(self) -> None:
        """Refuse a snapshot that is not there, not whole, or not the one that was described.

        Raises:
            BadInput: see above; nothing was changed.
        """
        hint = "name another EtcdBackup in spec.etcd.restoreFrom"
        if not self.path.is_file() or not described(self.path).is_file():
            raise BadInput(f"there is no snapshot {self.about.file} in claim {self.about.claim}", hint=hint)
        if not is_whole(self.path) or self._told().get("sha256") != sha256_of(self.path):
            raise BadInput(f"snapshot {self.about.file} in claim {self.about.claim} is damaged", hint=hint)

    def _told(self) -> dict[str, Any]:
        """Return what is said beside the snapshot."""
        try:
            found = json.loads(described(self.path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _read_back(self) -> dict[str, Any]:
        if not self.path.is_file() or not is_whole(self.path):
            raise InfraError(
                f"snapshot {self.about.file} in claim {self.about.claim} is not what etcd wrote",
                hint="see whether the volume is full, and its disk; the operation is repeated",
            )
        return {"sizeBytes": self.path.stat().st_size, "sha256": sha256_of(self.path)}


def described(path: Path) -> Path:
    """Return the file that describes a snapshot."""
    return path.with_name(f"{path.name}.json")


def is_whole(path: Path) -> bool:
    """Tell whether a snapshot ends with the digest of itself."""
    size, digest = path.stat().st_size, hashlib.sha256()
    if size % BLOCK != digest.digest_size:
        return False
    left = size - digest.digest_size
    with path.open("rb") as content:
        while left > 0 and (chunk := content.read(min(left, CHUNK))):
            digest.update(chunk)
            left -= len(chunk)
        return content.read() == digest.digest()


def _durable(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
