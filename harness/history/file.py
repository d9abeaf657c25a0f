"""The history in one file of this machine (or of a job's cache): appended to by many, compacted by one at a time.

A record is written with one write, so that a killed writer leaves at most its own last line torn; the next writer
begins a line of its own. Compaction writes another file and puts it in place of the first. Both hold a lock that ends
with the process.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness import system
from harness.errors import BadInput, InfraError, VmatrixError
from harness.files import MIB, read_bytes, refuse_irregular, write_atomically

if TYPE_CHECKING:  # most commands only ask for the end of the file, as bytes
    from harness.history.lines import History
    from harness.history.record import Record

LARGEST = 1024 * MIB  # a record has some kB: hundreds of thousands of cell runs
RECENT_BYTES = 32 * 2**20  # of the file's end: thousands of cell runs, read in less than a second


@dataclass(frozen=True)
class FileStore:
    """A history file; it need not exist yet."""

    path: Path

    @property
    def name(self) -> str:
        """Return where the history is, for people."""
        return str(self.path)

    def load(self) -> History:
        """Return the history; an empty one without a file."""
        from harness.history.lines import read

        return read([(str(self.path), content(self.path))] if _is_there(self.path) else [])

    def recent(self) -> bytes:
        """Return the end of the file, nothing without one; BadInput when it cannot be read."""
        try:
            with open(self.path, "rb", opener=_at_once) as file:
                refuse_irregular(self.path, os.fstat(file.fileno()))
                file.seek(max(0, file.seek(0, os.SEEK_END) - RECENT_BYTES))
                return file.read(RECENT_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def append(self, records: Sequence[Record]) -> None:
        """Add records, those that are there too; InfraError or BadInput when that fails, and the file is as it was."""
        if records:
            with self._locked():
                self._write(records)

    def add(self, records: Iterable[Record]) -> int:
        """Add those records that the file does not have, and return their number; raises what `append` does."""
        from harness.history.lines import missing

        with self._locked():
            new = missing(records, content(self.path) if _is_there(self.path) else b"")
            self._write(new)
        return len(new)

    def compact(self, *, days: float, now: datetime) -> int:
        """Drop the details of records older than so many days, return of how many; an error as `append`."""
        from harness.history.lines import cut_down

        if not _is_there(self.path):
            return 0
        with self._locked():
            before = content(self.path)
            after, dropped = cut_down(before, days=days, now=now)
            if after != before:
                replace_file(self.path, after)
        return dropped

    def _write(self, records: Iterable[Record]) -> None:
        from harness.history.record import to_line

        lines = b"".join(map(to_line, records))
        if not lines:
            return
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise _refused(self.path, error) from error
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            _write_all(handle, (b"\n" if torn else b"") + lines, size)
            os.fsync(handle)
        except OSError as error:
            raise _refused(self.path, error) from error
        finally:
            os.close(handle)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self.path.with_name(f"{self.path.name}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(lock, os.O_WRONLY | os.O_CREAT, 0o644)
        except OSError as error:
            raise _refused(self.path, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def content(path: Path) -> bytes:
    """Return a file's bytes; BadInput when it cannot be read."""
    try:
        return read_bytes(path, largest=LARGEST)
    except BadInput as error:
        raise BadInput(f"cannot read the history: {error.summary}", hint="pass another file with --history") from error


def replace_file(path: Path, after: bytes) -> None:
    """Replace a file so that any reader has the old or the new one whole; an error as `append`."""
    try:
        write_atomically(path, after, durable=True)
    except OSError as error:
        raise _refused(path, error) from error


def _write_all(handle: int, text: bytes, size: int) -> None:
    """Write a text at the end; when that fails in the middle (a full disk), make the file as it was."""
    try:
        while text:
            text = text[os.write(handle, text) :]
    except OSError:
        os.ftruncate(handle, size)
        raise


def _is_there(path: Path) -> bool:
    try:
        return system.lexists(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"cannot read the history {path}: {error.strerror}", hint="pass another file with --history")


def _refused(path: Path, error: OSError) -> VmatrixError:
    """Return the error of a file that cannot be written: the host's where it lacks something, else the user's."""
    kind = InfraError if isinstance(system.of(error), InfraError) else BadInput
    return kind(
        f"cannot write the history {path}: {error.strerror}",
        hint="the results are still in runs/; the setting report_file names another file",
    )
