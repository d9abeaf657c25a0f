"""Files: atomic writes, locks, work folders, YAML that we write, and files that people name, read up to a size.

Only regular files are read: a FIFO or a terminal would be waited for without an end, a device read without one.

Caches (artifacts, disk images, node images, what products need) share the work folders: a lock per entry keeps
processes from making the same thing twice, and its holder removes what killed processes left.
"""

from __future__ import annotations

import codecs
import fcntl
import hashlib
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml

from harness import system
from harness.errors import BadInput, NotText

MIB = 2**20
LARGEST = 16 * MIB  # matrices, settings, kubeconfigs and product files have kilobytes; a vault or a list may have more
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
LOCK = ".lock-"
TEMPORARY = ".tmp-"


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
        with system.naming(path), os.fdopen(handle, "wb") as file:
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


def move_aside(path: Path) -> None:
    """Rename what is at a path and is not a regular file, to `NAME.moved-N` beside it.

    A link is not one, whatever it leads to: somebody else's file may be at its end. Of several processes, one does it.
    """
    if not _is_in_the_way(path):
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not _is_in_the_way(path):  # another process was first, and the file may be there again
            return
        names = (path.with_name(f"{path.name}.moved-{number}") for number in itertools.count(1))
        path.rename(next(name for name in names if not os.path.lexists(name)))
    finally:
        os.close(folder)


def _is_in_the_way(path: Path) -> bool:
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def write_new(files: Mapping[Path, tuple[str, int]]) -> None:
    """Write files that do not exist, each with its text and its mode; if one cannot be written, leave none of them.

    Raises:
        OSError: a folder or a file cannot be made, or the file exists.
    """
    made: list[Path] = []
    try:
        for file, (text, mode) in files.items():
            for folder in reversed([folder for folder in file.parents if not folder.exists()]):
                folder.mkdir()
                made.append(folder)
            with system.naming(file), file.open("x", encoding="utf-8") as sink:
                made.append(file)
                sink.write(text)
            file.chmod(mode)
    except BaseException:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        raise


class IndentedDumper(yaml.SafeDumper):
    """Writes YAML whose lists are indented below their keys: `yaml.dump(content, Dumper=IndentedDumper)`."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Begin a list or a mapping."""
        super().increase_indent(flow, False)


def read_text(path: Path, *, largest: int = LARGEST) -> str:
    """Return a regular file's text; BadInput as `read_bytes`, and when it is not UTF-8 (NotText)."""
    content = read_bytes(path, largest=largest)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # UTF-32 begins so as well
        raise BadInput(f"{path} is UTF-16 text; only UTF-8 is read", hint=f"iconv -f UTF-16 -t UTF-8 {path}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = f"is not UTF-8 text: {error.reason} in line {line}, at byte {error.start}"
        raise NotText(f"{path} {wrong}", line=line, hint="save it as UTF-8") from error


def read_bytes(path: Path, *, largest: int = LARGEST) -> bytes:
    """Return the content of a regular file.

    Args:
        largest: its largest size, in bytes.

    Raises:
        BadInput: it is not a regular file, larger, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO is opened without its writer
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise system.of(error) or BadInput(f"{path} cannot be read: {error}") from error
    status = os.fstat(handle)
    try:
        refuse_irregular(path, status)
    except BadInput:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise BadInput(
            f"{path} has {max(status.st_size, len(content)) / MIB:.0f} MiB; at most {largest / MIB:g} MiB are read",
            hint="is it the right file?",
        )
    return content


def refuse_irregular(path: Path, status: os.stat_result) -> None:
    """Refuse what is not a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise BadInput(f"{path} is {KINDS.get(kind, 'no regular file')}", hint="name a regular file")


def wrong_path(text: str) -> str:
    """Return what is wrong with a path that a person gave, "" when nothing is."""
    if not text:
        return "it is empty; name a path, `.` is the working directory"
    if "\n" in text:
        return "it has several lines: the content of a file, not its name"
    return "" if all(ord(c) >= ord(" ") for c in text) else "it contains a control character"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def locked(path: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold an exclusive lock on a file, which the kernel releases when this process dies.

    Args:
        path: the lock file, made as needed in a folder that exists.
        waiting: called once when another process holds the lock.
    """
    with if_unlocked(path) as free:
        if free:
            yield
            return
    if waiting is not None:
        waiting()
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold a lock on a file beside others who share it; who wants it alone (`locked`, `if_unlocked`) waits or gives up.

    Args:
        path: the lock file, made with its folder as needed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield


@contextmanager
def if_unlocked(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on a file if nobody has it; yield whether that is so."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def hold(root: Path, name: str, waiting: Callable[[], None]) -> AbstractContextManager[None]:
    """Lock an entry of a cache folder, which is made as needed; `waiting` is called when another process has it."""
    root.mkdir(parents=True, exist_ok=True)
    return locked(root / f"{LOCK}{name}", waiting=waiting)


@contextmanager
def working(root: Path, name: str) -> Iterator[Path]:
    """Yield the path of a folder to make and to make an entry in; only for the holder of the entry's lock."""
    for left in half_done(root, name):
        shutil.rmtree(left, ignore_errors=True)
    work = root / f"{TEMPORARY}{name}-{os.getpid()}"
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def half_done(root: Path, name: str) -> list[Path]:
    """Return the folders in which an entry was or is being made, one for each process."""
    folders = sorted(root.glob(f"{TEMPORARY}{name}-*"))
    return [folder for folder in folders if folder.name.rpartition("-")[0] == f"{TEMPORARY}{name}"]
