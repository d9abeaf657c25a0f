"""Own checks cannot end a run, change what vmatrix works with, or hang: each such thing is a failure of the check."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import EXIT_BAD_INPUT, EXIT_HARNESS, EXIT_PRODUCT
from harness.plugin.own_process import PARTS, Surroundings, last_frame
from tests.unit.plugin.played import played

BEGIN = """\
import asyncio, atexit, builtins, ctypes, io, itertools, locale, logging, os, posix, pytest, resource, signal, socket
import subprocess, sys, tempfile, threading, time, unittest, warnings
from os import _exit


class Mute(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class Base(BaseException):
    pass


@pytest.fixture
def exits(guest):
    sys.exit(0)


@pytest.fixture(scope="session")
def exits_once(guest):
    sys.exit(0)


@pytest.fixture
def exits_late(guest):
    yield
    sys.exit(0)


@pytest.fixture
def leaves_late(guest):
    yield
    pytest.exit("bye", returncode=0)


@pytest.fixture(scope="session")
def waits(guest):
    time.sleep(600)


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def recurse():
    recurse()

"""
PASSED, USER, PRODUCT, NOT_RUN = ("passed", ""), ("failed", "user"), ("failed", "product"), ("not-run", "")
# What one check does: its name, what it asks for, its body; how it has to end.
CHECKS: list[tuple[str, str, str, tuple[str, str]]] = [
    ("first", "guest", "pass", PASSED),
    # the end of the process, or of pytest
    ("os_exit", "guest", "os._exit(0)", USER),
    ("saved_exit", "guest", "_exit(0)", USER),
    ("posix_exit", "guest", "posix._exit(0)", USER),
    ("exit_in_thread", "guest", "in_thread(lambda: os._exit(0))", USER),
    ("exit_is_thread", "guest", "threading.Thread(target=_exit, args=(0,)).start(); time.sleep(0.1)", USER),
    ("exec", "guest", "os.execv('/bin/true', ['true'])", USER),
    ("execvp", "guest", "os.execvp('true', ['true'])", USER),
    ("abort", "guest", "os.abort()", USER),
    ("sys_exit", "guest", "sys.exit(0)", USER),
    ("pytest_exit", "guest", "pytest.exit('bye', returncode=0)", USER),
    ("interrupt", "guest", "raise KeyboardInterrupt", USER),
    ("fixture_exits", "exits", "pass", USER),
    ("session_fixture_exits", "exits_once", "pass", USER),
    ("session_fixture_exits_again", "exits_once", "pass", USER),
    ("fixture_exits_late", "exits_late", "pass", USER),
    ("fixture_leaves_late", "leaves_late", "pass", USER),
    ("exits_at_exit", "guest", "atexit.register(os._exit, 0)", PASSED),
    ("fork_comes_back", "guest", "os.fork()", PASSED),
    ("fork_stays", "guest", "os.fork() or time.sleep(600)", PASSED),
    ("child_stays", "guest", "subprocess.Popen(['sleep', '600'])", PASSED),
    ("thread_stays", "guest", "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", PASSED),
    ("thread_raises", "guest", "in_thread(lambda: 1 / 0)", PASSED),
    # what is raised
    ("base", "guest", "raise Base('x')", USER),
    ("generator_exit", "guest", "raise GeneratorExit", USER),
    ("cancelled", "guest", "raise asyncio.CancelledError", USER),
    ("memory", "guest", "raise MemoryError", USER),
    ("recursion", "guest", "recurse()", USER),
    ("no_text", "guest", "raise Mute", USER),
    ("group", "guest", "raise ExceptionGroup('x', [ValueError('a'), AssertionError('b')])", USER),
    ("group_of_assertions", "guest", "raise ExceptionGroup('x', [AssertionError('a'), AssertionError('b')])", PRODUCT),
    ("skips", "guest", "raise unittest.SkipTest('no')", NOT_RUN),
    ("long_text", "guest", "assert 0, 'm' * 5_000_000", PRODUCT),
    ("much_output", "guest", "print('o' * 5_000_000)", PASSED),
    # the state of the process
    ("closes_output", "guest", "os.close(1); os.close(2)", PASSED),
    ("output_closed", "guest", "assert os.fstat(1) and os.fstat(2); sys.stdout.write('x')", PASSED),
    ("closes_streams", "guest", "sys.stdout.close(); sys.stderr.close(); assert 0", PRODUCT),
    ("no_streams", "guest", "sys.stdout = sys.stderr = None; assert 0", PRODUCT),
    ("directory", "guest", "d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)", PASSED),
    ("umask", "guest", "os.umask(0o777)", PASSED),
    ("ignores_signals", "guest", "[signal.signal(s, signal.SIG_IGN) for s in (2, 15, 17)]", PASSED),
    ("signals_heard", "guest", "assert signal.getsignal(15) is not signal.SIG_IGN", PASSED),
    ("blocks_signals", "guest", "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))", PASSED),
    ("alarm", "guest", "signal.alarm(1)", PASSED),
    ("after_alarm", "guest", "time.sleep(1.2)", PASSED),
    ("environment", "guest", "os.environ.clear(); os.environ.update(NO='1', HOME='/no', TZ='Garbage')", PASSED),
    (
        "environment_is_there",
        "guest",
        "assert os.environ['NO'] == '1'; assert 'PATH' not in os.environ",
        PASSED,
    ),
    ("path", "guest", "sys.path.clear()", PASSED),
    ("locale", "guest", "locale.setlocale(locale.LC_ALL, 'C')", PASSED),
    ("clock", "guest", "time.time = time.monotonic = time.perf_counter = lambda: 0.0", PASSED),
    ("clock_raises", "guest", "time.time = time.sleep = lambda *_: 1 / 0", PASSED),
    ("open", "guest", "builtins.open = io.open = os.open = lambda *_, **__: 1 / 0", PASSED),
    ("recursion_limit", "guest", "sys.setrecursionlimit(200)", PASSED),
    ("trace", "guest", "sys.settrace(lambda *_: 1 / 0)", USER),
    ("logging", "guest", "logging.disable(50); logging.shutdown()", PASSED),
    # no end; `own_check` is 2 s
    ("sleeps", "guest", "time.sleep(600)", USER),
    ("locks", "guest", "lock = threading.Lock(); lock.acquire(); lock.acquire()", USER),
    ("accepts", "guest", "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()", USER),
    ("waits_for_child", "guest", "subprocess.run(['sleep', '600'])", USER),
    ("session_fixture_waits", "waits", "pass", USER),
    ("session_fixture_waits_again", "waits", "pass", USER),
    ("last", "guest", "assert os.path.exists('/')", PASSED),
]
TIMEOUTS = "extends: default\ntimeouts: {own_load: 30, own_check: 2}\n"
SHORT = "extends: default\ntimeouts: {own_load: 1, own_check: 1}\n"
ONE = "import ctypes, itertools, os, signal, time\n\n\ndef test_before(guest): pass\n\n\ndef test_it(guest):\n    "


def test_what_a_check_does_is_its_own_failure_and_the_run_goes_on(tmp_path: Path) -> None:
    source = BEGIN + "\n\n".join(f"def test_{name}({asks}):\n    {body}\n" for name, asks, body, _ in CHECKS)
    run = played(tmp_path, {"checks/test_it.py": source, "matrix/timeouts.yml": TIMEOUTS}, "-n", "1")
    ended = {name: (outcome, blame) for name, outcome, blame in run.checks()}  # the last: a fixture may end it badly
    wanted = {f"test_{name}": how for name, _, _, how in CHECKS}
    assert {name: how for name, how in ended.items() if how != wanted[name]} == {}, run
    assert ended.keys() == wanted.keys()
    assert run.failed_steps() == []
    assert run.code == EXIT_PRODUCT, run
    assert run.left == []
    failed = {name for name, (outcome, _) in wanted.items() if outcome == "failed"}
    assert {name for name, _ in run.junit()} == failed
    assert "own: test_os_exit" in run.summary  # which has the first of many
    assert "INTERNALERROR" not in run.stdout
    said = dict(run.junit())
    assert "os._exit(0) in a thread" in said["test_exit_in_thread"]
    assert "did not end within 2 s: " in said["test_sleeps"]
    assert "test_it.py:" in said["test_session_fixture_waits"]
    assert ", in waits; " in said["test_session_fixture_waits"]


# What ends a worker whatever Python does: the body of the check; what is said of it, and whose fault it is.
DEATHS = {
    "a crash": ("ctypes.string_at(0)", "own: test_it ended the process", "(SIGSEGV)", EXIT_BAD_INPUT),
    "an end in C": ("ctypes.CDLL(None)._exit(0)", "own: test_it ended the process", "(exit status 0)", EXIT_BAD_INPUT),
    "a loop in C": ("sum(itertools.count())", "own: test_it did not end within 1 s", ", in test_it", EXIT_BAD_INPUT),
    "a kill": ("os.kill(os.getpid(), signal.SIGKILL)", "ended before its cell did in own: test_it", "", EXIT_HARNESS),
}


@pytest.mark.parametrize("name", DEATHS)
def test_the_end_of_a_worker_is_told_of_the_check_that_was_under_way(tmp_path: Path, name: str) -> None:
    body, begin, end, code = DEATHS[name]
    files = {"checks/test_it.py": ONE + body + "\n", "matrix/timeouts.yml": SHORT}
    run = played(tmp_path, files, "-n", "1")
    ((step, blame, summary),) = run.failed_steps()
    assert (step, blame) == ("worker", "user" if code == EXIT_BAD_INPUT else "harness"), run
    assert begin in summary
    assert end in summary
    assert run.code == code
    assert run.checks() == [("test_before", "passed", "")]
    assert run.left == []
    assert summary in dict(run.junit())["step worker"]
    assert begin in run.summary


# What a check does to the files of its run, by the path of its results: they are lost.
REMOVALS = {
    "the folder removed": "shutil.rmtree(path.parent)",
    "emptied": "path.write_text('')",
    "a folder": "path.unlink(); path.mkdir()",
    "a folder that is not empty": "path.unlink(); path.mkdir(); (path / 'a').touch()",
    "a link to nothing": "path.unlink(); path.symlink_to('/no/such/file')",
    "a link to another file": "path.unlink(); path.symlink_to(cell_dir / 'mine'); (cell_dir / 'mine').touch()",
    "a link to itself": "path.unlink(); path.symlink_to(path)",
    "a FIFO": "path.unlink(); os.mkfifo(path)",
    "a device": "path.unlink(); path.symlink_to('/dev/full')",
}


@pytest.mark.parametrize("body", REMOVALS.values(), ids=REMOVALS)
def test_a_run_whose_results_are_removed_does_not_pass(tmp_path: Path, body: str) -> None:
    source = "import os, shutil\n\n\ndef test_fails(guest): assert 0\n\n\n"
    source += f"def test_it(guest, cell_dir):\n    path = cell_dir.parent / 'results.jsonl'\n    {body}\n"
    run = played(tmp_path, {"checks/test_it.py": source}, "-n", "1")
    assert run.code == EXIT_BAD_INPUT, run
    said = "was removed, emptied or replaced while the run was under way"
    assert said in run.stdout
    assert said in run.summary
    assert [file.read_text() for file in tmp_path.rglob("mine") if file.read_text()] == []
    assert run.left == []


# What a file does when it is loaded, and what is said of it.
LOADS = {
    "sleeps": ("import time\ntime.sleep(600)\n", "2: did not end within 1 s: "),
    "waits": (
        "import threading\ndef wait():\n    threading.Event().wait()\nwait()\n",
        ", in wait; correct it, or raise own_load",
    ),
    "ends": ("import posix\nposix._exit(0)\n", "2: raises SystemExit when it is loaded: os._exit(0)"),
    "ends in a thread": (
        "import os, threading\nt = threading.Thread(target=lambda: os._exit(0))\nt.start(); t.join()\n",
        "raises Ended when it is loaded: os._exit(0) in a thread",
    ),
    "interrupts": ("raise KeyboardInterrupt\n", "1: raises Ended when it is loaded: KeyboardInterrupt"),
}


def test_what_a_file_does_when_it_is_loaded_is_bad_input(tmp_path: Path) -> None:
    files = {f"checks/test_{name.replace(' ', '_')}.py": source for name, (source, _) in LOADS.items()}
    run = played(tmp_path, {**files, "matrix/timeouts.yml": SHORT})
    assert run.code == EXIT_BAD_INPUT, run
    assert [said for _, said in LOADS.values() if said not in run.stderr] == [], run
    assert run.stderr.count("error (user): ") == 1
    assert not run.runs.exists()


# How own checks can change a part of a process's state: (name of the part, what they do).
CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("working directory", os.chdir),
    ("umask", lambda _: os.umask(0o777)),
    ("environment", lambda _: os.environ.update(OWN_CHECKS="1")),
    ("sys.path", lambda _: sys.path.append("x")),
    ("time-out of sockets", lambda _: socket.setdefaulttimeout(1.5)),
    ("alarm", lambda _: signal.alarm(1000)),
    ("recursion", lambda _: sys.setrecursionlimit(5000)),
    ("handler of SIGTERM", lambda _: signal.signal(signal.SIGTERM, signal.SIG_IGN)),
    ("time.time", lambda _: setattr(time, "time", lambda: 0.0)),
    ("sys.stdout", lambda _: setattr(sys, "stdout", None)),
    ("os.open", lambda _: setattr(os, "open", None)),
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=[name for name, _ in CHANGES])
def test_what_checks_change_is_put_back_and_is_theirs_again(
    name: str, change: Callable[[Path], object], tmp_path: Path
) -> None:
    part, surroundings = PARTS[name], Surroundings()
    before = part.get()
    with surroundings.theirs():
        change(tmp_path)
        changed = part.get()
        assert changed != before
    assert part.get() == before
    with surroundings.theirs():
        assert (part.get() == changed) == part.again
        part.put(before)
    assert part.get() == before


def test_where_a_loop_in_c_was_is_read_from_its_stack(tmp_path: Path) -> None:
    stack = (
        "Timeout (0:00:03)!\nThread 0x00007f (most recent call first):\n"
        '  File "/usr/lib/threading.py", line 324 in wait\n\n'
        "Thread 0x00007e (most recent call first):\n"
        f'  File "/usr/lib/re.py", line 5 in match\n  File "{tmp_path}/test_a.py", line 7 in test_a\n'
    )
    assert last_frame(stack, tmp_path) == (f"{tmp_path}/test_a.py", 7, "test_a")
    assert last_frame(stack, tmp_path / "other") == ("/usr/lib/re.py", 5, "match")
    assert last_frame("", tmp_path) is None
