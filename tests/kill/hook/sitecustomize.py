"""Ends a process before its k-th call of a kind: loaded by Python at its start, told by KILL_AT and KILL_IN.

KILL_AT is `KIND:K`, KILL_IN a word of the command line of the process that is meant; those that it starts live on.
Python's own audit events tell of the calls: https://docs.python.org/3/library/audit_events.html
"""

from __future__ import annotations

import os
import signal
import sys

_UNCOUNTED = ("__pycache__", "/dev/", "/proc/", "/sys/")
_left = 0


def _kind(event: str, args: tuple[object, ...]) -> str:
    if event == "subprocess.Popen":
        return "process"
    if event in {"os.remove", "os.rmdir", "shutil.rmtree"}:
        return "remove"
    if event == "http.client.send":
        data = args[1]
        return "write" if isinstance(data, bytes) and data.split(b" ", 1)[0] in {b"POST", b"PUT", b"PATCH"} else ""
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
        return "" if any(word in str(args[0]) for word in _UNCOUNTED) else "file"
    return ""


def _hear(event: str, args: tuple[object, ...]) -> None:
    global _left
    if _kind(event, args) == _WANTED:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


_WANTED, _, _count = os.environ.get("KILL_AT", "").partition(":")
if _WANTED and os.environ.get("KILL_IN", "") in sys.orig_argv:
    _left = int(_count)
    sys.addaudithook(_hear)
