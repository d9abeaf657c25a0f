"""Standard output and standard error that cannot be written to: a full disk, or a reader that is gone.

A command ends with an error then. What has machines to delete goes on silently, and says so at its end.
"""

from __future__ import annotations

import io
import os
from typing import Any, TextIO

OUTPUT, ERRORS = "standard output", "standard error"
DESCRIPTORS = {OUTPUT: 1, ERRORS: 2}
READER_GONE = 141  # 128 + SIGPIPE, as shells report `command | head`


class Muted:
    """A standard stream that falls silent once it cannot be written to.

    error: why it did; None while it is heard.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        """Return everything else of the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, if anybody hears it."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._fall_silent(error)
        return len(text)

    def flush(self) -> None:
        """Write what is left, if anybody hears it."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fall_silent(error)

    def _fall_silent(self, error: OSError) -> None:
        error.filename = error.filename or self._name
        self.error = self.error or error
        drop(self._name)


def escaping(stream: object) -> None:
    """Have a stream escape what its encoding lacks, as `\\u2713` in an ASCII locale, instead of refusing the text."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
        stream.reconfigure(errors="backslashreplace")


def drop(name: str) -> None:
    """Send what is left of a standard stream nowhere, so that the interpreter does not try again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, DESCRIPTORS[name])
    os.close(nowhere)
