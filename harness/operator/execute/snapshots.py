"""Snapshots of etcd: CLUSTER/NAME.db, and beside it NAME.db.json, without which a snapshot does not count.

The playbook writes a snapshot as `.part`, verifies it and renames it. Then it is read back here, made durable, and only
then described. What is to lie in a bucket lies in a folder of the pod meanwhile (`object_store`).
https://etcd.io/docs/v3.6/op-guide/recovery (a snapshot ends with the SHA-256 of what is before it)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import BadInput, InfraError
from harness.files import sha256_of, write_atomically
from harness.kube.objects import now
from harness.operator.api.etcd import ABSENT, LOCKED, OperationSnapshot
from harness.operator.decide.observed import DRILL, RESTORING
from harness.operator.execute.inputs import BACKUP
from harness.operator.execute.object_store import Bucket

BLOCK = 512  # the size of a bbolt file is a multiple of it; behind that is the digest
CHUNK = 1 << 20
COUNTS = "counts"  # of keys by resource: in the description alone, everything else has no room for them
HALF = ("*.part", "*.clone")  # what was begun and never ended, the second by an earlier version's clones
MOST_NAMED = 10  # files that an executor names: what it says in the end has room for 4096 bytes


@dataclass(frozen=True)
class SnapshotStore:
    """The claim of an operation, as a folder; what is kept of `cluster` in it; and the snapshot that it is about.

    bucket: where the snapshot lies, if it does not lie in a claim.  locked: files that could not be deleted yet, and
    until when.
    """

    folder: Path
    cluster: str
    about: OperationSnapshot
    bucket: Bucket | None = None
    locked: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Return the snapshot's file."""
        return self.folder / self.about.file

    def tidy(self) -> None:
        """Delete files whose EtcdBackups are gone, and what was begun for `cluster` but never ended.

        Another cluster, of whose snapshot it may become a clone, may be writing one now.

        Raises:
            InfraError: the claim cannot be written.
        """
        files = [file for file in self.about.forget if file != self.about.file]
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            gone = [self.folder / file for file in files] if self.bucket is None else []
            halves = (path for of in HALF for path in (self.folder / self.cluster).glob(of))
            for path in (*gone, *halves):
                path.unlink(missing_ok=True)
                described(path).unlink(missing_ok=True)
        except OSError as error:
            place = f"PersistentVolumeClaim {self.about.claim}" if self.bucket is None else f"folder {self.folder}"
            raise InfraError(
                f"{place} cannot be written: {error.strerror}",
                hint="see whether its volume is full, read-only, or another user's",
            ) from error
        if self.bucket is not None:
            self.bucket.abort_uploads(self.cluster)
            for file in files:
                self.bucket.delete(description_of(file))  # first: what has none does not count
                if (until := self.bucket.delete(file)) is not None and len(self.locked) < MOST_NAMED:
                    self.locked[file] = until

    def begin(self, operation: str) -> None:
        """Have the place ready for a new snapshot, which there is none of until it is whole; or check the one there.

        A drill writes nothing where snapshots lie.

        Raises:
            InfraError, BadInput: see `tidy` and `check`.
        """
        if operation == DRILL:
            self._fetch()
            self.check("the next verified backup is drilled at once: make an EtcdBackup, and see its volume or bucket")
            return
        self.tidy()
        if operation == BACKUP:
            described(self.path).unlink(missing_ok=True)
            if self.bucket is not None:
                self.bucket.delete(description_of(self.about.file))
        elif operation in RESTORING:
            self._fetch()
            self.check()

    def end(self, origin: Mapping[str, str]) -> dict[str, Any]:
        """Return what there is to know of the snapshot that the playbook left, and say it beside it.

        Args:
            origin: what is known of its cluster besides, such as fingerprints of its authorities.

        Raises:
            InfraError: what lies in the claim is not what the playbook verified.
            StoreTrouble: the bucket does not take it.
        """
        version = {"kubernetesVersion": origin["kubernetesVersion"]} if origin.get("kubernetesVersion") else {}
        facts = {**self._told(), **self._read_back(), **version, "taken": now()}
        _durable(self.path)
        whose = {"cluster": self.cluster, "backup": self.about.backup, "uid": self.about.uid, **origin}
        text = json.dumps({**whose, **facts}, indent=2) + "\n"
        write_atomically(described(self.path), text, mode=0o600, durable=True)
        if self.bucket is not None:
            named = {name: str(value) for name, value in {**whose, **facts}.items() if name != COUNTS}
            self.bucket.upload(self.path, self.about.file, named)
            self.bucket.describe(description_of(self.about.file), text)
            self.path.unlink()
        absent = [file for file in self.about.expected if not self._is_there(file)][:MOST_NAMED]
        more = {name: file_names for name, file_names in ((ABSENT, absent), (LOCKED, self.locked)) if file_names}
        return {**{name: value for name, value in facts.items() if name != COUNTS}, **more}

    def proven(self) -> dict[str, int]:
        """Return what a drill has found in the snapshot, which is what was noted beside it."""
        return {name: value for name, value in self._told().items() if name in ("objects", "revision")}

    @property
    def where(self) -> str:
        """Return what the snapshot lies in, as messages name it."""
        return f"bucket {self.bucket.where.url}" if self.bucket is not None else f"claim {self.about.claim}"

    def _is_there(self, file: str) -> bool:
        return (self.folder / file).is_file() if self.bucket is None else self.bucket.exists(file)

    def _fetch(self) -> None:
        """Have the snapshot of a bucket in the folder, if the bucket has it."""
        if self.bucket is None:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = self.bucket.text(description_of(self.about.file))
        if text is not None:
            write_atomically(described(self.path), text, mode=0o600)
            self.bucket.download(self.about.file, self.path)

    def check(self, hint: str = "make an EtcdRestore of another EtcdBackup") -> None:
        """Refuse a snapshot that is not there, not whole, or not the one that was described.

        Raises:
            BadInput: see above; nothing was changed.
        """
        if not self.path.is_file() or not described(self.path).is_file():
            raise BadInput(f"there is no snapshot {self.about.file} in {self.where}", hint=hint)
        if not is_whole(self.path) or self._told().get("sha256") != sha256_of(self.path):
            raise BadInput(f"snapshot {self.about.file} in {self.where} is damaged", hint=hint)

    def _told(self) -> dict[str, Any]:
        """Return what is said beside the snapshot."""
        try:
            description = json.loads(described(self.path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return description if isinstance(description, dict) else {}

    def _read_back(self) -> dict[str, Any]:
        if not self.path.is_file() or not is_whole(self.path):
            raise InfraError(
                f"snapshot {self.about.file} in {self.where} is not what etcd wrote",
                hint="see whether the volume is full, and its disk; the operation is repeated",
            )
        return {"sizeBytes": self.path.stat().st_size, "sha256": sha256_of(self.path)}


def described(path: Path) -> Path:
    """Return the file that describes a snapshot."""
    return path.with_name(description_of(path.name))


def description_of(file: str) -> str:
    """Return the name of what describes a file."""
    return f"{file}.json"


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
