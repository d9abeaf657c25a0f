"""Containers whose processes are this host's: those in machines of an embedded infrastructure, or in a kind node."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

PROC = Path("/proc")
Json = dict[str, Any]


def id_of(pod: Json) -> str:
    """Return the id of a pod's first container, "" before it has one."""
    states = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return str(states[0].get("containerID") or "").rpartition("//")[2]


def first_process(container: str, proc: Path = PROC) -> int | None:
    """Return a container's first process, None where there is none."""
    return next((pid for pid in _candidates(proc) if _is_first(container, proc / str(pid))), None)


def kill(container: str, proc: Path = PROC) -> int | None:
    """Kill a container's first process, with which the kernel ends all others; return its id, None if there is none.

    Args:
        container: its id.
    """
    pid = first_process(container, proc)
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid) if pid is not None else None
        if pid is None or handle is None:
            return None
        try:
            if _is_first(container, proc / str(pid)):  # and no other process that got its number meanwhile
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return pid
        finally:
            os.close(handle)
    return None


def _candidates(proc: Path) -> Iterator[int]:
    return (int(path.name) for path in proc.iterdir() if path.name.isdigit())


def _is_first(container: str, process: Path) -> bool:
    """Tell whether a process is the first one of a container: number 1 in its namespace of processes."""
    try:
        if container not in (process / "cgroup").read_text(encoding="utf-8"):
            return False
        status = (process / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return False
    inner = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(inner) > 1 and inner[-1] == "1"
