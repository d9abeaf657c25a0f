"""Processes of tests that others are to find in /proc."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


def shown(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process has its command line; return its id.

    The kernel closes the pipe that Popen waits for before it sets the new program's arguments.
    """
    while process.poll() is None and not Path(f"/proc/{process.pid}/cmdline").read_bytes():
        time.sleep(0.001)
    return process.pid


def sleeping(process: subprocess.Popen[str]) -> None:
    """Wait until a process that has asked for input waits for it.

    A signal that comes between the interpreter's last look at signals and its call of read(2) does not end that call.
    """
    while process.poll() is None and proc_state(process.pid) != "S":
        time.sleep(0.001)


def proc_state(pid: int) -> str:
    """Return the letter of a process's state (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
