"""The guard of a program: it ends as the program does, and nothing that the program started outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import proc
from harness.cell.product import command_guard
from harness.machines.reach.ssh import DIES_WITH_US
from harness.until import Deadline, NotYet, until

SECONDS = 120.0  # against hanging
STUBBORN = "trap '' TERM; while :; do sleep 0.1; done"


def guarded(grace: float, script: str) -> list[str]:
    """Return the command that runs a shell script under a guard."""
    return [sys.executable, "-P", "-m", command_guard.__name__, str(grace), "sh", "-c", script]


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script under a guard to its end."""
    return subprocess.run(guarded(0.2, script), capture_output=True, text=True, timeout=SECONDS, check=False)


def runs(variable: str, program: str) -> str:
    """Return what a script does until a process that it started is the program, and no copy of the shell any more."""
    return f"until grep -qx {program} /proc/${variable}/comm; do sleep 0.02; done"


def marked(mark: str) -> list[int]:
    """Return the living processes that have a variable in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_until_gone(mark: str) -> None:
    """Wait until no process has the mark."""
    until(
        lambda: NotYet(f"{left} live") if (left := marked(mark)) else True,
        deadline=Deadline.after(SECONDS),
        what="nothing is left",
        interval=0.05,
    )


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """A variable by which the processes of a test are found again."""
    monkeypatch.setenv("GUARDED", f"{request.node.name}-{os.getpid()}")
    found = f"GUARDED={os.environ['GUARDED']}"
    yield found
    for pid in marked(found):
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def outer(mark: str, tmp_path: Path) -> Path:
    """Where a script tells that it has begun."""
    return tmp_path / "begun"


def begun(file: Path) -> None:
    """Wait until a script says that it has begun."""
    until(lambda: file.exists() or NotYet("nothing"), deadline=Deadline.after(SECONDS), what="begun", interval=0.02)


def test_it_ends_with_the_programs_status() -> None:
    assert (run("exit 0").returncode, run("exit 7").returncode) == (0, 7)
    assert run("echo out; echo err >&2").stdout == "out\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_it_dies_of_the_signal_that_the_program_died_of(number: int) -> None:
    assert run(f"kill -{number} $$").returncode == -number


def test_a_program_that_cannot_be_started_is_said() -> None:
    done = subprocess.run(
        [*guarded(1, "")[:-3], "/nowhere/x"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == command_guard.NOT_FOUND
    assert "/nowhere/x` could not be started" in done.stderr


def test_what_the_program_leaves_running_ends_with_it_and_is_named(mark: str, outer: Path) -> None:
    began = time.monotonic()
    far = f"(setsid sh -c 'sleep 63 & echo $! > {outer}.new && mv {outer}.new {outer}' &)"
    ids = f"one=$!; setsid sleep 62 & two=$!; {far}; while [ ! -e {outer} ]; do sleep 0.02; done; read three < {outer}"
    run_by_now = "; ".join(runs(name, "sleep") for name in ("one", "two", "three"))
    done = run(f"sleep 61 & {ids}; {run_by_now}; exit 4")
    assert done.returncode == 4
    assert "left running" in done.stderr
    assert done.stderr.count("sleep (") == 3
    assert time.monotonic() - began < SECONDS
    assert marked(mark) == []


def test_a_connection_that_ssh_shares_ends_unsaid(mark: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    shared = f"bash -c \"exec -a 'ssh: /tmp/x/abc [mux]' cat <>{tmp_path}/pipe\""
    fake = "python3 -c 'import time; time.sleep(69)'"
    done = run(f"{shared} & one=$!; {fake} & two=$!; {runs('one', 'cat')}; {runs('two', 'python3')}")
    assert "python3 (" in done.stderr
    assert "cat (" not in done.stderr
    assert marked(mark) == []


def test_what_is_left_and_ignores_the_signal_is_killed(mark: str, outer: Path) -> None:
    script = f'setsid sh -c "{STUBBORN.replace("; while", f"; touch {outer}; while")}" & '
    assert run(f"{script} while [ ! -e {outer} ]; do sleep 0.1; done").returncode == 0
    assert marked(mark) == []


@pytest.mark.parametrize("escape", ["", "setsid "])
def test_on_the_signal_all_that_the_program_started_ends_though_it_ignores_it(
    escape: str, mark: str, outer: Path
) -> None:
    script = f"trap '' TERM; {escape}sh -c \"{STUBBORN}\" & touch {outer}; while :; do sleep 0.1; done"
    guard = subprocess.Popen(guarded(0.5, script), start_new_session=True)
    begun(outer)
    guard.terminate()
    assert guard.wait(SECONDS) == -signal.SIGKILL
    wait_until_gone(mark)


def test_looking_for_processes_may_take_longer_than_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, depth = [], []

    def slow(number: int) -> None:
        depth.append(number)
        looks.append(len(depth))
        time.sleep(0.2)
        depth.pop()

    monkeypatch.setattr(command_guard, "send", slow)
    monkeypatch.setattr(proc, "below", lambda _: iter(()))
    monkeypatch.setattr(command_guard, "adopt_orphans", lambda: None)
    before = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM)]
    try:
        assert command_guard.main(["0", "sh", "-c", "kill -TERM $PPID; sleep 2"]) == 0
    finally:
        for number, handler in zip((signal.SIGALRM, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    assert len(looks) > 2
    assert max(looks) == 1


def test_a_program_may_end_in_its_own_way(tmp_path: Path, outer: Path) -> None:
    note = tmp_path / "note"
    script = f"trap 'sleep 0.3; echo tidy > {note}; exit 9' TERM; touch {outer}; while :; do sleep 0.1; done"
    guard = subprocess.Popen(guarded(SECONDS, script), start_new_session=True)
    begun(outer)
    guard.terminate()
    assert guard.wait(SECONDS) == 9
    assert note.read_text() == "tidy\n"


def test_all_of_it_ends_when_whoever_started_it_is_killed(mark: str, outer: Path) -> None:
    script = f"{STUBBORN.replace('; while', f'; setsid sleep 64 & touch {outer}; while')}"
    words = [*DIES_WITH_US, *guarded(0.5, script)]
    program = f"import subprocess; subprocess.run({words!r}, start_new_session=True)"
    starter = subprocess.Popen([sys.executable, "-c", program])
    begun(outer)
    starter.kill()
    starter.wait(SECONDS)
    wait_until_gone(mark)
