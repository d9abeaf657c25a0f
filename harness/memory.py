"""How much memory this host has left, and how busy it is.

https://www.kernel.org/doc/html/latest/filesystems/proc.html#kernel-data: the load counts what runs, and what waits for
a processor or for a disk.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

BUSY = 2.0  # processes for each core, from which on waits are at risk
MOST_SCALE = 100  # that --timeout-scale takes


def memory_available_mib(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return how much of this host's memory is free or can be freed at once, in MiB."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines())
    return int(fields["MemAvailable"].split()[0]) // 1024


@dataclass(frozen=True)
class Load:
    """How busy this host is: its load over the last minute, and how many cores share it."""

    load: float
    cores: int

    @property
    def busy(self) -> bool:
        """Tell whether waits should be longer."""
        return self.load >= BUSY * self.cores

    @property
    def option(self) -> str:
        """Return the option that makes all waits as much longer as everything takes."""
        return f"--timeout-scale {min(MOST_SCALE, math.ceil(self.load / self.cores))}"

    def __str__(self) -> str:
        return f"this host is busy: load {self.load:.0f} on {self.cores} {'core' if self.cores == 1 else 'cores'}"


def host_load() -> Load:
    """Measure how busy this host is."""
    return Load(os.getloadavg()[0], len(os.sched_getaffinity(0)))
