"""Standard output and standard error: what cannot be written to them, and lines of progress in between.

A stream cannot be written to where a disk is full or a reader is gone. A command ends with an error then. What has
machines to delete goes on silently, and says so at its end.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from harness import system

if TYPE_CHECKING:
    from rich.console import Console

OUTPUT, ERRORS = "standard output", "standard error"
DESCRIPTORS = {OUTPUT: 1, ERRORS: 2}
SECTION = "vmatrix_progress"  # the name of a section in a job's log
READER_GONE = 141  # 128 + SIGPIPE, as shells report `command | head`


def plain_console(*, soft_wrap: bool = True, **options: Any) -> Console:
    """Return a console that prints texts as they are: what is in brackets or between colons stays.

    Args:
        soft_wrap: whether the terminal breaks long lines, so that they can be copied whole.
        options: further ones of rich's Console.
    """
    from rich.console import Console  # here, because it takes long to load

    return Console(markup=False, emoji=False, highlight=False, soft_wrap=soft_wrap, **options)


class Muted:
    """A standard stream that falls silent once it cannot be written to.

    error: why it did; None while it is heard.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._lock = threading.RLock()
        self._section_end = ""  # of a section of lines of progress, which is to be closed before anything else
        self._written = time.monotonic()
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        """Return everything else of the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, if anybody hears it."""
        try:
            with self._lock:
                self._stream.write(self._section_end + text)
                self._section_end = ""
                self._written = time.monotonic()
        except OSError as error:
            self._fall_silent(error)
        return len(text)

    @property
    def silent_seconds(self) -> float:
        """Return how long nothing was written."""
        return time.monotonic() - self._written

    def progress_line(self, line: str, *, gitlab: bool) -> None:
        """Write a line that only says that something goes on; in GitLab, such lines in a row are a folded section.

        The section begins with the first of them (GitLab docs, "Custom collapsible sections").
        """
        with self._lock:
            now, end = int(time.time()), self._section_end
            self._section_end = ""
            start = f"\x1b[0Ksection_start:{now}:{SECTION}_{now}[collapsed=true]\r\x1b[0K" if gitlab and not end else ""
            self.write(f"{start}{line}\n")
            self.flush()
            self._section_end = end or (f"\x1b[0Ksection_end:{now}:{SECTION}_{now}\r\x1b[0K" if gitlab else "")

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


TOLD = "_VMATRIX_TOLD"  # notices already given: processes that this one starts or becomes inherit it and stay quiet


def tell_once(line: str) -> None:
    """Print a notice on standard error, unless this process, or one that led to it, has told it."""
    told = os.environ.get(TOLD, "").splitlines()
    if line not in told:
        os.environ[TOLD] = "\n".join([*told, line])
        sys.stderr.write(f"{line}\n")


SIZES = ("COLUMNS", "LINES", "TERMINAL_WIDTH")  # a terminal's, as rich, click and typer read them
SIZE = re.compile("[1-9][0-9]{0,3}")


def without_wrong_sizes(environment: MutableMapping[str, str]) -> None:
    """Take out sizes of a terminal that are none: libraries would fail by them, or fill lines of any length."""
    for name in SIZES:
        if not SIZE.fullmatch(environment.get(name, "1")):
            del environment[name]


def escaping(stream: object) -> None:
    """Have a stream escape what its encoding lacks, as `\\u2713` in an ASCII locale, instead of refusing the text."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
        stream.reconfigure(errors="backslashreplace")


def drop(name: str) -> None:
    """Send what is left of a standard stream nowhere, so that the interpreter does not try again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, DESCRIPTORS[name])
    os.close(nowhere)


class Output:
    """Both standard streams of a run; `ending` turns what became of them into its exit code."""

    def __init__(self) -> None:
        escaping(sys.stdout)
        escaping(sys.stderr)
        self.said = Muted(sys.stdout, OUTPUT)
        self.errors = Muted(sys.stderr, ERRORS)

    def ending(self, code: int) -> int:
        """Return the exit code of a run that ended with this one: that of lost output, where all else was well."""
        self.said.write("")  # ends a section
        self.said.flush()
        lost = self.said.error
        if lost is None:
            return code
        if isinstance(lost, BrokenPipeError):
            return code or READER_GONE
        told = system.of(lost)
        if told is None:
            return code
        self.errors.write(f"error ({told.blame.value}): {told.summary}\nhint: {told.hint}\n")
        return code or told.exit_code


@contextmanager
def output() -> Iterator[Output]:
    """Let both standard streams fall silent, instead of failing, while the body runs."""
    plain, made = (sys.stdout, sys.stderr), Output()
    sys.stdout, sys.stderr = cast(TextIO, made.said), cast(TextIO, made.errors)
    try:
        yield made
    finally:
        sys.stdout, sys.stderr = plain
