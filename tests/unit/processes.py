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
