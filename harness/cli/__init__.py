"""The `vmatrix` command: options become calls, errors exit codes, and whatever cannot be written is noticed."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from harness import system
from harness.errors import EXIT_HARNESS, BadInput, VmatrixError
from harness.interpreter import begin_anew
from harness.sanitize import sanitized
from harness.startup import unsearched
from harness.streams import ERRORS, OUTPUT, READER_GONE, Muted, drop, escaping, plain_console, without_wrong_sizes

SIGNALS = 128  # a shell reports a signal as 128 and its number
ENDING = (signal.SIGTERM, signal.SIGHUP)
PAGE = re.compile(r"(?<![\w/.])docs/([\w/-]+)\.md")  # of the documentation, in a message
LOOP = "Symlink loop from "  # how pathlib says it of a path that it resolves


class Terminated(KeyboardInterrupt):
    """A signal that ends the command, as Ctrl-C does: what it has started is ended first, such as a compiler."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def _terminate(number: int, _frame: object) -> None:
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)  # the end is under way
    raise Terminated(number)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the body by way of an exception, unless they are ignored, as by nohup.

    A command with handlers of its own replaces these; a program that this process becomes has none.
    """
    main = threading.current_thread() is threading.main_thread()
    ours = [number for number in ENDING if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _terminated(error: BaseException | None) -> Terminated | None:
    """Return the signal that an exception comes from, None where it comes from none."""
    while error is not None and not isinstance(error, Terminated):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def written() -> Iterator[None]:
    """Run a command whose output has to arrive; a signal ends what it has started, too.

    Raises:
        BadInput: standard output is closed.  OSError: it cannot be written to.  SystemExit: the command's end.
    """
    _open_errors()
    escaping(sys.stdout)
    if sys.stdout is None:
        raise BadInput(f"{OUTPUT} is closed", hint=system.REDIRECT)
    plain = sys.stdout
    sys.stdout = cast(TextIO, _Named(plain))
    try:
        with _ended_by_signals():
            yield
    except Terminated as ended:
        sys.exit(SIGNALS + ended.number)
    except SystemExit as ended:
        if (by := _terminated(ended)) is not None:
            sys.exit(SIGNALS + by.number)
        if isinstance(ended.__context__, BrokenPipeError):
            drop(OUTPUT)
            sys.exit(READER_GONE)
        sys.stdout.flush()
        raise
    finally:
        sys.stdout = plain


class _Named:
    """Standard output, which says so when it cannot be written to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """Return everything else of the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text."""
        with system.naming(OUTPUT):
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what is left."""
        with system.naming(OUTPUT):
            self._stream.flush()


def tell_error(error: Exception) -> int:
    """Print an error and return the exit code of the command that it ended."""
    if isinstance(error, BrokenPipeError):
        drop(OUTPUT)
        return READER_GONE
    ours = error if isinstance(error, VmatrixError) else _of_system(error)
    if ours is not None:
        show_error(ours)
        return ours.exit_code
    console = plain_console(stderr=True)
    console.print(sanitized(f"error: {type(error).__name__}: {error}"))
    console.print("this is a bug in vmatrix: repeat with -vv and report the traceback")
    return EXIT_HARNESS


def _of_system(error: Exception) -> VmatrixError | None:
    """Return an error of the operating system as one of ours; one of the output names the output."""
    if isinstance(error, RuntimeError) and str(error).startswith(LOOP):
        error = OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(error).removeprefix(LOOP).strip("'\""))
    if not isinstance(error, OSError):
        return None
    if error.filename == OUTPUT:
        drop(OUTPUT)
    return system.of(error)


def _open_errors() -> None:
    """Give messages a place to go where standard error is closed or cannot be written to: nobody could be told."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    sys.stderr = cast(TextIO, Muted(sys.stderr, ERRORS))


def show_error(error: VmatrixError) -> None:
    """Print an error as a person reads it: what, details, where to look, what to do."""
    console = plain_console(stderr=True)
    console.print(sanitized(f"error ({error.blame.value}): {error.summary}"), style="red")
    if error.detail:
        console.print("\n".join(f"  {line}" for line in sanitized(error.detail).splitlines()))
    for path in error.paths:
        console.print(sanitized(f"  see: {path}"))
    if error.hint:
        console.print(sanitized(f"hint: {error.hint}"))
    for page in dict.fromkeys(PAGE.findall(f"{error.summary} {error.hint}")):
        console.print(f"`vmatrix docs {page}` prints docs/{page}.md")


def __getattr__(name: str) -> Any:
    """Return `app`, all commands, loaded: whoever calls one of them does without the others."""
    if name != "app":
        raise AttributeError(name)
    from harness.cli.root import together

    globals()[name] = together()
    return globals()[name]


def every_command() -> Any:
    """Return all commands, each loaded when it is called."""
    from harness.cli.root import late

    return late()


def _command(words: list[str]) -> Any:
    """Return what a command line calls. What is loaded for it stays, so it is not garbage to search for."""
    with unsearched():
        from harness.cli.root import program

        return program(words) or every_command()


def main() -> None:
    """Run the command and end the process with its exit code."""
    verbose = "-vv" in sys.argv
    without_wrong_sizes(os.environ)
    try:
        begin_anew()
        if verbose:
            sys.argv.remove("-vv")
        with written():
            _command(sys.argv[1:])(prog_name="vmatrix", standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug of ours, reported as one
        code = tell_error(error)
        if verbose:
            traceback.print_exc()
        sys.exit(code)
