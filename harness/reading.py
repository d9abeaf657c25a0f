"""Files that people name, read: regular ones alone, and none that is larger than such a file ever is.

A FIFO or a terminal would be waited for without an end, a device read without one.
"""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

from harness import system
from harness.errors import BadInput

MIB = 2**20
LARGEST = 16 * MIB  # matrices, settings, kubeconfigs and product files have kilobytes; a vault or a list may have more
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def wrong_path(text: str) -> str:
    """Return what is wrong with a path that a person gave, "" when nothing is."""
    if not text:
        return "it is empty; name a path, `.` is the working directory"
    return "" if all(ord(c) >= ord(" ") for c in text) else "it contains a control character"


def read_bytes(path: Path, *, largest: int = LARGEST) -> bytes:
    """Return the content of a regular file.

    Args:
        largest: its largest size, in bytes.

    Raises:
        BadInput: it is no regular file, larger, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO is opened without its writer
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise system.of(error) or BadInput(f"{path} cannot be read: {error}") from error
    seen = os.fstat(handle)
    try:
        refuse_irregular(path, seen)
    except BadInput:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise BadInput(
            f"{path} has {max(seen.st_size, len(content)) / MIB:.0f} MiB; at most {largest / MIB:g} MiB are read",
            hint="is it the right file?",
        )
    return content


def refuse_irregular(path: Path, seen: os.stat_result) -> None:
    """Refuse what is no regular file."""
    kind = stat.S_IFMT(seen.st_mode)
    if kind != stat.S_IFREG:
        raise BadInput(f"{path} is {KINDS.get(kind, 'no regular file')}", hint="name a regular file")


def read_text(path: Path, *, largest: int = LARGEST) -> str:
    """Return a regular file's text; BadInput as `read_bytes`, and when it is not UTF-8."""
    content = read_bytes(path, largest=largest)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # UTF-32 begins so as well
        raise BadInput(f"{path} is UTF-16 text; only UTF-8 is read", hint=f"iconv -f UTF-16 -t UTF-8 {path}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error
