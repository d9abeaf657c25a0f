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
    match = PSS.search(rollup) or RSS.search(read(f"/proc/{pid}/status") or "")
    return int(match[1]) if match else 0


def seconds(pid: int) -> float | None:
    """Return the CPU time of a process in seconds (proc_pid_stat(5), fields 14 and 15); None when it has ended."""
    fields = (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if len(fields) > 12 else None


def main(argv: Sequence[str]) -> None:
    """Print, by program: KiB of memory, and seconds of CPU time for each second.

    Args:
        argv: one JSON object: `seconds` to watch, and the `names` of further programs.
    """
    options = json.loads(argv[0])
    running = processes(*PROCESSES, *options["names"])
    before, began = {process["pid"]: seconds(process["pid"]) for process in running}, time.monotonic()
    time.sleep(options["seconds"])
    watched = time.monotonic() - began
    usage: dict[str, Any] = {}
    for process in running:
        first, last = before[process["pid"]], seconds(process["pid"])
        if first is None or last is None:
            continue
        entry = usage.setdefault(process["name"], {"kib": 0, "cpu": 0.0})
        entry["kib"] += memory(process["pid"])
        entry["cpu"] += (last - first) / watched
    print(json.dumps(usage))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
