"""What the project's own checks may do to the process that they run in: end it, change its state, take its time.

What they change stays theirs: it is put back whenever code of vmatrix goes on, and most of it is there again for the
next of them. What would end the process, or does not end, is a failure of the check that does it.
"""

from __future__ import annotations

import builtins
import faulthandler
import fcntl
import inspect
import io
import locale
import os
import posix
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.outcomes import Failed

ENDING = ("_exit", "execv", "execve", "abort")  # of os: nothing of this process goes on after them
BY_PYTHON = frozenset({os.__file__, threading.__file__})  # frames that do not say who calls
MAY_END = tuple(
    Path(str(found.origin)).parent for name in ("harness", "xdist", "multiprocessing") if (found := find_spec(name))
)
OF_EXECNET = "<execnet"  # which sends its modules to workers as text


# Of threads that checks have left: they come at any time.
UNCAUGHT = (pytest.PytestUnhandledThreadExceptionWarning, pytest.PytestUnraisableExceptionWarning)


class Ended(Exception):
    """A check has called what would have ended the run."""


class Late(Failed):
    """A check has not ended in time; `except Exception` does not take this for an error of the check's own."""


@dataclass
class EndGuard:
    """Keeps own checks from ending the process by a call: after `os._exit(0)` nothing is torn down, and all seems well.

    Processes that checks have forked end as they want.

    refused: calls in threads, which raise nothing that anybody would hear of.
    """

    refused: list[str] = field(default_factory=list)

    def install(self) -> None:
        """Have the functions of `os` that end a process raise SystemExit, unless vmatrix or its workers call them."""
        process = os.getpid()
        for name in ENDING:
            guarded = partial(self._refuse, name, getattr(posix, name), process)
            for module in (os, posix):
                setattr(module, name, guarded)

    def _refuse(self, name: str, end: Callable[..., Any], process: int, *words: Any) -> Any:
        if os.getpid() != process or _of_vmatrix(inspect.currentframe()):
            return end(*words)
        said = f"os.{name}({', '.join(map(repr, words))})"
        if threading.current_thread() is not threading.main_thread():
            self.refused.append(f"{said} in a thread")
        raise SystemExit(said)

    def tell(self) -> None:
        """Raise what a thread has called meanwhile."""
        if self.refused:
            said, self.refused = self.refused[0], []
            raise Ended(said)


def _of_vmatrix(frame: FrameType | None) -> bool:
    """Tell whether code of vmatrix, or of what runs its workers, has called the function of a frame."""
    caller = frame.f_back if frame is not None else None
    while caller is not None and caller.f_code.co_filename in BY_PYTHON:
        caller = caller.f_back
    file = caller.f_code.co_filename if caller is not None else ""
    return file.startswith(OF_EXECNET) or any(Path(file).is_relative_to(folder) for folder in MAY_END)


@contextmanager
def no_end(folder: Path) -> Iterator[None]:
    """Take `pytest.exit` and KeyboardInterrupt of own checks for a failure of the one that raises them.

    A signal raises a KeyboardInterrupt of a class of its own.
    """
    try:
        yield
    except BaseException as error:
        ends = isinstance(error, pytest.exit.Exception) or type(error) is KeyboardInterrupt
        if not ends or not _came_through(error, folder):
            raise
        name = "pytest.exit" if isinstance(error, pytest.exit.Exception) else type(error).__name__
        raise Ended(f"{name}: {error}".rstrip(": ")).with_traceback(error.__traceback__) from None


def _came_through(error: BaseException, folder: Path) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).is_relative_to(folder):
            return True
        trace = trace.tb_next
    return False


@dataclass(frozen=True)
class Part:
    """A part of a process's state that all its code shares.

    again: whether what own checks made of it is there again for the next of them.
    """

    get: Callable[[], Any]
    put: Callable[[Any], object]
    again: bool = False


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it is deleted
        return ""


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _put_environment(wanted: Mapping[str, str | None]) -> None:
    zone = os.environ.get("TZ")
    os.environ.clear()
    os.environ.update({name: value for name, value in wanted.items() if value is not None})
    if os.environ.get("TZ") != zone:
        time.tzset()


def _attribute(owner: Any, name: str) -> Part:
    return Part(partial(getattr, owner, name, None), partial(setattr, owner, name))


def _handler(number: signal.Signals) -> Part:
    def put(handler: Any) -> None:
        if handler is not None:  # it is not one of Python's
            signal.signal(number, handler)

    return Part(partial(signal.getsignal, number), put)


def _put_path(wanted: list[str]) -> None:
    sys.path[:] = wanted


SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGCHLD", "SIGALRM", "SIGUSR1", "SIGUSR2")
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "strftime")
PARTS: dict[str, Part] = {
    "working directory": Part(_directory, os.chdir, again=True),
    "umask": Part(_umask, os.umask, again=True),
    "environment": Part(lambda: dict(os.environ), _put_environment, again=True),
    "sys.path": Part(lambda: list(sys.path), _put_path, again=True),
    "locale": Part(partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL), again=True),
    "time-out of sockets": Part(socket.getdefaulttimeout, socket.setdefaulttimeout, again=True),
    "blocked signals": Part(
        partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()), partial(signal.pthread_sigmask, signal.SIG_SETMASK)
    ),
    "alarm": Part(
        lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0, lambda _: signal.setitimer(signal.ITIMER_REAL, 0)
    ),
    "recursion": Part(sys.getrecursionlimit, sys.setrecursionlimit),
    "trace": Part(sys.gettrace, sys.settrace),
    "profile": Part(sys.getprofile, sys.setprofile),
    **{f"handler of {name}": _handler(getattr(signal, name)) for name in SIGNALS},
    **{f"time.{name}": _attribute(time, name) for name in CLOCKS},
    **{f"sys.{name}": _attribute(sys, name) for name in ("stdin", "stdout", "stderr", "excepthook", "unraisablehook")},
    **{f"os.{name}": _attribute(os, name) for name in ("open", "write", "close", "fork", *ENDING)},
    "open": _attribute(builtins, "open"),
    "io.open": _attribute(io, "open"),
}


class Unclosed:
    """A standard stream that stays open when own checks close it: vmatrix writes to it as well."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """Return everything else of the stream."""
        return getattr(self._stream, name)

    def close(self) -> None:
        """Write what is left to write."""
        self._stream.flush()


STREAMS = ("stdout", "stderr")
FIRST_COPY = 100  # where `os.closerange` of a check seldom comes
DESCRIPTORS = (0, 1, 2)


def _file(descriptor: int) -> tuple[int, int] | None:
    """Return which file a descriptor is of; None where it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Surroundings:
    """The state of this process: as vmatrix has it, and as own checks do."""

    def __init__(self) -> None:
        self._theirs: dict[str, Any] = {}
        self._copies: dict[int, tuple[int, tuple[int, int] | None]] = {}
        for descriptor in DESCRIPTORS:
            with suppress(OSError):  # it was closed when this process began
                copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_COPY)
                self._copies[descriptor] = copy, _file(descriptor)

    @contextmanager
    def theirs(self) -> Iterator[None]:
        """Run the body with the state that own checks have left; put back what vmatrix had."""
        ours = {name: part.get() for name, part in PARTS.items()}
        for stream in STREAMS:
            if (ours_open := ours[f"sys.{stream}"]) is not None:
                setattr(sys, stream, Unclosed(ours_open))
        for name, value in self._theirs.items():
            _put(name, {**ours[name], **value} if isinstance(value, dict) else value)
        try:
            yield
        finally:
            changed = [name for name, part in PARTS.items() if not _same(part.get(), ours[name])]
            self._theirs = {name: _left(name, ours[name]) for name in changed if PARTS[name].again}
            for name in changed:
                _put(name, ours[name])
            self._put_descriptors()

    def _put_descriptors(self) -> None:
        for descriptor, (copy, file) in self._copies.items():
            if _file(descriptor) != file:
                with suppress(OSError):  # the copy is closed as well
                    os.dup2(copy, descriptor)


OF_PYTEST = "PYTEST_CURRENT_TEST"  # a variable that pytest changes by itself


def _left(name: str, before: Any) -> Any:
    """Return what a part is now; of a table what differs from before, None for what is gone."""
    now = PARTS[name].get()
    if not isinstance(now, dict):
        return now
    names = {key for key in {*now, *before} - {OF_PYTEST} if now.get(key) != before.get(key)}
    return {key: now.get(key) for key in names}


def _put(name: str, value: Any) -> None:
    with suppress(OSError, locale.Error, ValueError):  # a working directory that is gone, a file that is closed
        PARTS[name].put(value)


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str | int | float | dict | list | set) and bool(one == other))


HARD_GRACE = 20.0  # after a deadline, for code that hears of no exception, as a loop in C does
REPEAT_SECONDS = 5.0  # an exception that was caught is raised again
LATE_SIGNAL = signal.SIGRTMIN + 7  # which nobody else uses
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)


class TimeLimit:
    """Ends what own checks do after some seconds, and says where they were.

    First by an exception in the main thread. Code that takes no notice is ended with its process: that of a worker is
    one of several, whose controller reads the stack; another process is ended by SIGALRM, its stack printed before.

    folder: of the own checks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worker = False
        self._stack: int | None = None
        with suppress(OSError):  # standard error is closed
            self._stack = os.dup(2)
        self._under_way = False

    def in_worker(self, stack: Path | None) -> None:
        """Take note that this process is a worker; `stack`: the file for its stack, None: standard error."""
        self._worker = True
        if stack is not None:
            self._stack = os.open(stack, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    @contextmanager
    def within(self, seconds: float, setting: str) -> Iterator[None]:
        """Run the body for so many seconds at most; `setting`: the key of matrix/timeouts.yml they are from.

        Raises:
            Late: it took longer.
        """
        ended = threading.Event()
        thread = threading.Thread(target=_remind, args=(ended, seconds), name="deadline", daemon=True)
        signal.signal(LATE_SIGNAL, partial(self._late, seconds, setting))
        if self._stack is not None:
            faulthandler.dump_traceback_later(seconds + HARD_GRACE, exit=self._worker, file=self._stack)
        if not self._worker:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds + HARD_GRACE + 1)
        self._under_way = True
        thread.start()
        try:
            yield
        finally:
            self._under_way = False
            ended.set()
            faulthandler.cancel_dump_traceback_later()
            if not self._worker:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _late(self, seconds: float, setting: str, _: int, frame: FrameType | None) -> None:
        if not self._under_way:
            return
        where = frame
        while where is not None and not Path(where.f_code.co_filename).is_relative_to(self._folder):
            where = where.f_back
        where = where or frame
        place = (where.f_code.co_filename, where.f_lineno, where.f_code.co_name) if where is not None else ("", 0, "")
        raise Late(not_ended(seconds, setting, *place))


def _remind(ended: threading.Event, seconds: float) -> None:
    """Send the main thread the signal once time is up, until it has ended."""
    main = threading.main_thread().ident
    while main is not None and not ended.wait(seconds):
        signal.pthread_kill(main, LATE_SIGNAL)
        seconds = REPEAT_SECONDS


def not_ended(seconds: float, setting: str, file: str, line: int, function: str) -> str:
    """Return what is said of own checks that do not end."""
    where = f"{file}:{line}, in {function}" if file else "somewhere"
    return f"did not end within {seconds:g} s: {where}; correct it, or raise {setting} in matrix/timeouts.yml"


def last_frame(stack: str, folder: Path) -> tuple[str, int, str] | None:
    """Return where own checks were when a stack was written (by faulthandler): file, line and function.

    None where the stack is empty. The main thread is the last one in it; the innermost call comes first.
    """
    frames = [(m["file"], int(m["line"]), m["function"]) for m in FRAME.finditer(stack.rpartition("\n\n")[2] or stack)]
    theirs = [frame for frame in frames if Path(frame[0]).is_relative_to(folder)]
    return next(iter([*theirs, *frames]), None)


THREADS = "/proc/self/task"


def children() -> set[int]:
    """Return the processes that this one has started and that have not been waited for."""
    found: set[int] = set()
    for thread in os.listdir(THREADS):
        with suppress(OSError), FileIO(f"{THREADS}/{thread}/children") as file:  # the thread may have ended
            found |= set(map(int, file.readall().split()))
    return found


class OwnProcess:
    """The hooks around what own checks do in a process."""

    def __init__(self, folder: Path, load_seconds: float) -> None:
        self.folder = folder
        self.guard = EndGuard()
        self.surroundings = Surroundings()
        self.limit = TimeLimit(folder)
        self.load_seconds = load_seconds
        self.check_seconds = load_seconds  # until the project's settings are known
        self._started: set[int] = set()
        self.guard.install()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Run the body, which loads a file of theirs."""
        with self.limit.within(self.load_seconds, "own_load"), self.surroundings.theirs(), self._around():
            yield
        self.guard.tell()

    @contextmanager
    def _around(self) -> Iterator[None]:
        """Take note of the processes that the body starts; one that it forks and that comes back ends here."""
        process, before = os.getpid(), children()
        try:
            yield
        finally:
            if os.getpid() != process:
                os._exit(0)  # it would go on with the run, beside the process that does
            self._started |= children() - before

    def _running(self, item: pytest.Item, *, always: bool = False) -> Generator[None, Any, Any]:
        if not always and not item.path.is_relative_to(self.folder):
            return (yield)
        limit = self.limit.within(self.check_seconds, "own_check")
        with no_end(self.folder), limit, self.surroundings.theirs(), self._around():
            result = yield
        self.guard.tell()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Have every check that asks for a fixture fail alike: pytest remembers no SystemExit of it."""
        try:
            return (yield)
        except (SystemExit, GeneratorExit) as error:
            ended = Ended(f"{type(error).__name__}: {error}".rstrip(": ")).with_traceback(error.__traceback__)
            fixturedef.cached_result = (None, fixturedef.cache_key(request), (ended, error.__traceback__))  # type: ignore[arg-type]
            raise ended from None

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End the processes that checks have left: one that was forked keeps the pipes of a worker open."""
        for child in self._started & children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        for kind in UNCAUGHT:
            warnings.filterwarnings("default", category=kind)  # pytest's filters are not in effect any more

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Set a check up."""
        return (yield from self._running(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Run a check."""
        return (yield from self._running(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """End a check's fixtures; those of a wider scope than one check may end with an item of vmatrix."""
        return (yield from self._running(item, always=True))
