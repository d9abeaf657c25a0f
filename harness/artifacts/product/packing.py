"""Archives of programs that are the same bytes each time, on every machine: fixed times and owners, sorted, stored.

What is in a .tar.gz is not compressed: the same bytes would otherwise need the same version of zlib, and guests pull it
over a local wire. The format is that of RFC 1952 with stored blocks of RFC 1951.
"""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

BLOCK = 65535  # bytes, the most that a stored block may have
HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # gzip, no name, no time, no system
GZIP = (".tar.gz", ".tgz")
FORMAT = 1  # of the archives: raise it when their bytes change


def pack(target: Path, members: Mapping[str, Path]) -> None:
    """Write an archive of executable files: path in it -> file. It is a gzip file where the target's name says so."""
    with target.open("wb") as sink:
        gzip = StoredGzip(sink) if target.name.endswith(GZIP) else None
        stream = cast(IO[bytes], gzip or sink)
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
            folders = {str(folder) for path in members for folder in PurePosixPath(path).parents} - {"."}
            for path in sorted({*folders, *members}):
                entry = tarfile.TarInfo(path)
                entry.mode = 0o755
                if path in folders:
                    entry.type = tarfile.DIRTYPE
                    archive.addfile(entry)
                    continue
                entry.size = members[path].stat().st_size
                with members[path].open("rb") as content:
                    archive.addfile(entry, content)
        if gzip is not None:
            gzip.finish()


class StoredGzip:
    """A gzip file that is written without compressing anything; only what tarfile asks of a stream."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink, self._rest, self._check, self._size = sink, b"", 0, 0
        sink.write(HEADER)

    def write(self, data: bytes) -> int:
        """Add bytes."""
        self._check, self._size = zlib.crc32(data, self._check), self._size + len(data)
        pending = self._rest + data
        whole = len(pending) - len(pending) % BLOCK
        for start in range(0, whole, BLOCK):
            self._block(pending[start : start + BLOCK], last=False)
        self._rest = pending[whole:]
        return len(data)

    def finish(self) -> None:
        """Write the last block, the checksum and the length."""
        self._block(self._rest, last=True)
        self._sink.write(struct.pack("<II", self._check, self._size & 0xFFFFFFFF))

    def _block(self, data: bytes, *, last: bool) -> None:
        self._sink.write(struct.pack("<BHH", last, len(data), len(data) ^ 0xFFFF) + data)
