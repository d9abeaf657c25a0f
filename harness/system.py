"""What the operating system refuses, as a person reads it: the path, errno's words, whose it is and what to do.

The one place that turns an OSError into one of our errors. What a place or a right lacks is the user's to mend; what
a host has run out of is the infrastructure's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BadInput, InfraError, VmatrixError

EXHAUSTED = {
    errno.ENOSPC: "free disk space there, or choose another place",
    errno.EDQUOT: "free disk space there, or raise the quota",
    errno.EMFILE: "raise the number of open files: ulimit -n 4096",
    errno.ENFILE: "raise the number of open files of this host: sysctl fs.file-max",
    errno.ENOMEM: "stop other programs, or add memory",
    errno.EAGAIN: "raise the number of processes of this user: ulimit -u",
    errno.EIO: "look at the disk: dmesg",
    errno.ESTALE: "mount the file system again",
}
PLACES = "XDG_CACHE_HOME and XDG_STATE_HOME move vmatrix's own files, --runs the results"
REDIRECT = "is it closed? redirect it to a file or to /dev/null"
REFUSED = {
    errno.ENOENT: "check the path, and that the folder it lies in exists",
    errno.ENOTDIR: f"a part of the path is a file; choose another place: {PLACES}",
    errno.EISDIR: "it is a folder; name a file, or move the folder away",
    errno.EACCES: f"run as a user who may, change its owner or mode, or choose another place: {PLACES}",
    errno.EPERM: f"run as a user who may, or choose another place: {PLACES}",
    errno.EROFS: f"choose a place that can be written to: {PLACES}",
    errno.EEXIST: "something else is there; move it away",
    errno.ENOTEMPTY: "something else is there; move it away",
    errno.ELOOP: "its symbolic links lead back to themselves; name the file itself",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EBADF: REDIRECT,
    errno.EINVAL: "check the path",
    errno.ENXIO: "it is a socket, or a device that is not there; name a regular file",
    errno.EFBIG: "the file is larger than allowed: ulimit -f",
    errno.ETXTBSY: "the file is running; stop it first",
    errno.EXDEV: "put both on one file system",
    errno.EBUSY: "something uses it; stop that first",
}


def of(error: OSError) -> VmatrixError | None:
    """Return an error of the operating system as one of ours; None when it is none, such as one that a library made."""
    code = error.errno
    if code is None or code not in errno.errorcode or code not in EXHAUSTED.keys() | REFUSED.keys():
        return None
    said = f"{_where(error)}: {os.strerror(code)}"
    if code in EXHAUSTED:
        return InfraError(said, hint=EXHAUSTED[code])
    if code == errno.ENOENT and error.filename is None and _homeless():
        return BadInput("the working directory does not exist any more", hint="go to another one: cd")
    return BadInput(said, hint=REFUSED[code])


@contextmanager
def told() -> Iterator[None]:
    """Turn what the operating system refuses inside into one of our errors."""
    try:
        yield
    except OSError as error:
        ours = of(error)
        if ours is None:
            raise
        raise ours from error


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an error of the operating system name the path that it is about: a write to an open file names none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def lexists(path: Path) -> bool:
    """Tell whether anything is at a path, be it a link to nothing. What `os.path.lexists` may not look at is absent.

    Raises:
        OSError: nobody can tell: a folder on the way that this user may not search, or a link that leads back to
            itself. It names the folder or the link.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        closed = next((folder for folder in path.parents if os.path.lexists(folder)), path)
        error.filename = str(closed)
        raise
    return True


def _where(error: OSError) -> str:
    paths = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes | Path)]
    return " -> ".join(paths) or "the operating system refuses"


def _homeless() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
