"""Processes of tests that others are to find in /proc."""

from __future__ import annotations

import platform
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.until import Deadline, NotYet, until

END_SECONDS = 60.0  # against hanging, on a busy host
READ = {"x86_64": "0", "aarch64": "63"}[platform.machine()]  # numbers of read(2) in the kernel's tables


def shown(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process has its command line; return its id.

    The kernel closes the pipe that Popen waits for before it sets the new program's arguments.
    """
    while process.poll() is None and not Path(f"/proc/{process.pid}/cmdline").read_bytes():
        time.sleep(0.001)
    return process.pid


@contextmanager
def interruptible() -> Iterator[None]:
    """Have programs that are started meanwhile take SIGINT.

    A shell without job control starts what it runs in the background with SIGINT ignored, and all that this starts
    inherits it. A program that is started gets the default instead of its parent's handler.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def reading(process: subprocess.Popen[str]) -> None:
    """Wait until a process that has asked for input is inside of read(2) on its standard input (proc_pid_syscall(5)).

    A signal that comes between the interpreter's last look at signals and that call does not end it. That a process
    sleeps is not enough: it may do so for a moment elsewhere, before the call.
    """
    while process.poll() is None and called(process.pid) != (READ, "0x0"):
        time.sleep(0.001)


def called(pid: int) -> tuple[str, str]:
    """Return the number and the first argument of the system call that a process is in; empty words while it runs."""
    words = Path(f"/proc/{pid}/syscall").read_text(encoding="utf-8").split()
    return (words[0], words[1]) if len(words) > 1 else ("", "")


def proc_state(pid: int) -> str:
    """Return the letter of a process's state (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def wait_for_end(process: int) -> None:
    """Wait until a process is gone, or has ended and nobody has asked how."""

    def look() -> bool | NotYet:
        try:
            return not Path(f"/proc/{process}/cmdline").read_bytes() or NotYet("it goes on")
        except (FileNotFoundError, ProcessLookupError):
            return True

    until(look, deadline=Deadline.after(END_SECONDS), what=f"process {process} to end")
