"""Programs of this project run as processes that begin with their modules loaded.

A process that starts Python, pytest and vmatrix anew spends most of its time with that. Here one server for each
worker loads them once, and a child of it is the program: with a working directory, an environment and output of its
own, and with nothing of the test's process. What asks how a program starts, or sends it signals, starts it for real.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

from harness.interpreter import PYTEST, surroundings

SECONDS = 300.0  # against hanging
VMATRIX = Path(sys.executable).with_name("vmatrix")
MODULES = ("-m", "pytest"), ("-P", "-m", PYTEST)  # words of Python that begin a call of pytest
LOADED = "tests.unit.preloaded"


class _Becomes(BaseException):
    """The program becomes another one (exec)."""


def run_loaded(
    argv: Sequence[object], *, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run `vmatrix WORDS`, `python -m pytest WORDS` or `python -P -m harness.plugin WORDS` to its end.

    Args:
        argv: as `subprocess.run` takes it.
        env: the whole environment; that of this process without it.
        timeout: seconds until the test fails.
    """
    words = [str(word) for word in argv]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([LOADED])
    with TemporaryFile() as out, TemporaryFile() as err:
        given = (words, str(cwd), dict(os.environ if env is None else env))
        files = tuple(f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err))
        process = context.Process(target=_program, args=(*given, *files))
        process.start()
        try:
            process.join(timeout)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired(words, timeout, _text(out), _text(err))
        finally:  # also where the test is interrupted
            _kill(process)
        return subprocess.CompletedProcess(words, process.exitcode, _text(out), _text(err))


def _kill(process: BaseProcess) -> None:
    """Kill a program with all that it has started in its session, unless it has ended by itself."""
    if process.exitcode is None:
        assert process.pid is not None
        with suppress(ProcessLookupError):  # it leads no group yet
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _program(words: list[str], cwd: str, env: dict[str, str], out: str, err: str) -> None:
    """Be a program, in a new process."""
    os.setsid()
    for name, descriptor in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(name, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_APPEND), descriptor)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _writing(1, "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writing(2, "backslashreplace")  # type: ignore[misc]
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    os.execv = _becoming  # type: ignore[assignment] # the one form that is called
    while True:
        try:
            sys.exit(_called(words))
        except _Becomes as becomes:
            words = becomes.args[0]


def _writing(descriptor: int, errors: str) -> Any:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, write_through=True)


def _becoming(program: str, words: Sequence[str]) -> NoReturn:
    raise _Becomes([program, *words[1:]])


def _called(words: Sequence[str]) -> int | None:
    """Call the program that words begin with; return its exit code, None for 0."""
    begins = next((begin for begin in MODULES if tuple(words[1 : 1 + len(begin)]) == begin), None)
    if begins is None:
        import harness.cli

        sys.argv = list(words)
        assert Path(words[0]) == VMATRIX, words
        for name in os.environ.keys() - surroundings(os.environ).keys():  # as a start of its own does
            del os.environ[name]
        harness.cli.main()
        return None
    sys.argv = ["", *words[1 + len(begins) :]]
    sys.path[:0] = os.environ.get("PYTHONPATH", "").split(os.pathsep) if "PYTHONPATH" in os.environ else []
    if begins[-1] == PYTEST:
        from harness.plugin.__main__ import main

        return main()
    import pytest
    import xdist.plugin

    import harness.plugin

    sys.path.insert(0, "")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # it would load what is loaded, and say so
    return pytest.main(sys.argv[1:], plugins=[harness.plugin, xdist.plugin])
