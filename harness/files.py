"""Write a file so that a reader, or a process that is killed meanwhile, never sees half of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write a file through a temporary one beside it, which replaces it in one step.

    Args:
        path: the file; its folder must exist.
        content: text is written as UTF-8.
        mode: the file's permissions from its first byte on; 0o600 for what only its owner may read.
        durable: also wait until the disk has it, so that it survives a power failure.

    Raises:
        OSError: it could not be written; the file is what it was, and no temporary file is left.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    data = content.encode() if isinstance(content, str) else content
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
