"""Prints what the cluster's programs on a machine use: memory now, CPU time over some seconds.

A program's memory is its share of the pages that it maps (Pss of /proc/PID/smaps_rollup), so that shared pages count
once. Programs are told by the names of their processes.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from harness.validate.machine.library import PROCESSES, processes, read

TICKS = os.sysconf("SC_CLK_TCK")
PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
RSS = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)


def memory(pid: int) -> int:
    """Return a process's memory in KiB; 0 when it has ended."""
    rollup = read(f"/proc/{pid}/smaps_rollup") or ""
    found = PSS.search(rollup) or RSS.search(read(f"/proc/{pid}/status") or "")
    return int(found[1]) if found else 0


def seconds(pid: int) -> float | None:
    """Return the CPU time of a process in seconds (proc_pid_stat(5), fields 14 and 15); None when it has ended."""
    fields = (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if len(fields) > 12 else None


def main(argv: Sequence[str]) -> None:
    """Print, by program: KiB of memory, and seconds of CPU time for each second.

    Args:
        argv: one JSON object: `seconds` to watch, and the `names` of further programs.
    """
    given = json.loads(argv[0])
    running = processes(*PROCESSES, *given["names"])
    before, began = {one["pid"]: seconds(one["pid"]) for one in running}, time.monotonic()
    time.sleep(given["seconds"])
    watched = time.monotonic() - began
    found: dict[str, Any] = {}
    for one in running:
        first, last = before[one["pid"]], seconds(one["pid"])
        if first is None or last is None:
            continue
        entry = found.setdefault(one["name"], {"kib": 0, "cpu": 0.0})
        entry["kib"] += memory(one["pid"])
        entry["cpu"] += (last - first) / watched
    print(json.dumps(found))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
