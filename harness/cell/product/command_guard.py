"""Runs a phase's program, and ends all that it started: when it has ended, or when this process is told to end.

`python -m harness.cell.product.command_guard SECONDS PROGRAM [ARGUMENT...]` ends as the program does. On SIGTERM it
sends SIGTERM to the program and to everything that this started, and SIGKILL after that many seconds. The kernel hands
it each process that loses its parent (PR_SET_CHILD_SUBREAPER of prctl(2)), so that none gets away in the background.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness import proc

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
REST_SECONDS = 2.0  # for what the program left running to end by itself: it has no work to finish any more
LOOK_SECONDS = 0.02  # between two looks at what is left
NOT_FOUND = 127  # as a shell ends that does not find a program


def main(arguments: Sequence[str]) -> int:
    """Run the program; return its exit status, or die of the signal that it died of."""
    grace, *argv = arguments
    told: list[int] = []  # the signal to end
    adopt_orphans()

    def kill(*_: object) -> None:
        send(signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS)  # again, but not before this is done: it may take a while

    def end(number: int, _: object) -> None:
        told.append(number)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: some programs give up on a second one
        send(signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, max(float(grace), LOOK_SECONDS))

    signal.signal(signal.SIGALRM, kill)
    signal.signal(signal.SIGTERM, end)
    try:
        status = proc.attend(argv)
    except proc.CommandFailed as failure:
        sys.stderr.write(f"{failure.summary}\n")
        return NOT_FOUND
    signal.setitimer(signal.ITIMER_REAL, 0)
    end_the_rest(tell=not told)
    if status < 0:
        die_of(-status)
    return status


def adopt_orphans() -> None:
    """Become the parent of every process below that loses its own."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def end_the_rest(*, tell: bool) -> None:
    """End what the program left running; say what that was, unless it was told to end as well."""
    left = dict(proc.below(os.getpid()))
    if not left:
        return
    names = ", ".join(f"{name} ({pid})" for pid, name in left.items() if not is_shared_connection(pid))
    if names and tell:
        sys.stderr.write(f"vmatrix: the program has ended and left running, which is ended now: {names}\n")
        sys.stderr.flush()
    send(signal.SIGTERM)
    until = time.monotonic() + REST_SECONDS
    while any(proc.below(os.getpid())):
        if time.monotonic() > until:
            send(signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


def is_shared_connection(pid: int) -> bool:
    """Tell whether a process is ssh keeping a connection open for later calls, as our own configuration asks it to."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return command.startswith(b"ssh: ") and command.rstrip(b"\0").endswith(b"[mux]")


def send(number: signal.Signals) -> None:
    """Send a signal to everything below this process."""
    for pid, _ in proc.below(os.getpid()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def die_of(number: int) -> None:
    """Die of a signal, without a core file of this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
