"""Files such as etcdctl writes: blocks of a database, and the digest of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from harness.operator.api.etcd import OperationSnapshot


def snapshot_of(words: bytes = b"etcd", blocks: int = 3) -> bytes:
    """Return the content of a snapshot."""
    data = words.ljust(512 * blocks, b".")
    return data + hashlib.sha256(data).digest()


def place(name: str = "a", **more: Any) -> OperationSnapshot:
    """Return where the snapshot of an EtcdBackup of cluster prod lies."""
    return OperationSnapshot.model_validate(
        {"backup": name, "uid": f"uid-{name}", "claim": "claim", "file": f"prod/{name}.db", **more}
    )


def write(path: Path, content: bytes) -> Path:
    """Write a file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
