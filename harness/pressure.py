"""Pressure: how busy a host or a machine is by its own account, whether anything could be in time there; free memory.

Load and pressure stall information are averages that the kernel keeps, so they tell of the minutes before a failure
when they are read after it (proc_loadavg(5); docs.kernel.org, "PSI - Pressure Stall Information"). Machines of the
embedded infrastructure show those of this host. Others show their own, and how much of their processors was stolen.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc/pressure")
BUSY = 2.0  # a load for each processor, from which on waits are at risk
MOST_SCALE = 100  # that --timeout-scale takes
# A healthy cell passed all checks at loads up to 23 for each processor (docs/checks.md), and failed above 30.
MOST_LOAD = 20.0
# Shares of a minute in which something, or everything, stood still for want of it: what a cluster does not stand.
MOST_STALLED = {"io full": 50.0, "memory full": 20.0}
MOST_STOLEN = 30.0  # percent of a machine's processors that its host gave to others
SHOWN = ("cpu some", *MOST_STALLED)
READ = (
    "nproc; cat /proc/loadavg; for kind in cpu io memory; do sed s/^/$kind\\ / /proc/pressure/$kind 2>/dev/null; done; "
    "head -n 1 /proc/stat; sleep 1; head -n 1 /proc/stat"
)
STALL = re.compile(r"^(cpu|io|memory) (some|full) avg10=[\d.]+ avg60=([\d.]+)", re.MULTILINE)
TIMES = re.compile(r"^cpu +([\d ]+)$", re.MULTILINE)
STEAL = 7  # place among the times of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5))
OF_THE_PROCESSOR = 8  # the times after these are parts of the first ones


@dataclass(frozen=True)
class Pressure:
    """What a host or a machine says of itself.

    loads: averages of one, five and fifteen minutes: of what runs, and of what waits for a processor or for a disk.
    stalled: percent of the last minute, by resource and kind ("cpu some").
    stolen: percent of the processors' time, None where it was not measured.
    """

    where: str
    processors: int
    loads: tuple[float, float, float]
    stalled: Mapping[str, float]
    stolen: float | None = None

    @property
    def load(self) -> float:
        """Return the highest average: what it made restart, stays so."""
        return max(self.loads)

    @property
    def busy(self) -> str:
        """Say that waits should be longer, by the load of the last minute; "" where they need not."""
        if self.loads[0] < BUSY * self.processors:
            return ""
        cores = "core" if self.processors == 1 else "cores"
        return f"{self.where} is busy: load {self.loads[0]:.0f} on {self.processors} {cores}"

    @property
    def option(self) -> str:
        """Return the option that makes all waits as much longer as everything takes."""
        return f"--timeout-scale {min(MOST_SCALE, math.ceil(self.loads[0] / self.processors))}"

    @property
    def too_high(self) -> bool:
        """Tell whether nothing that waits for a processor, a disk or memory can be in time there."""
        stalled = any(self.stalled.get(what, 0.0) >= most for what, most in MOST_STALLED.items())
        return stalled or self.load >= MOST_LOAD * self.processors or (self.stolen or 0.0) >= MOST_STOLEN

    def __str__(self) -> str:
        """Return one line."""
        stalls = [f"{what} {self.stalled[what]:.0f} %" for what in SHOWN if what in self.stalled]
        stolen = [] if self.stolen is None else [f"stolen {self.stolen:.0f} %"]
        return ", ".join([f"{self.where}: load {self.load:.0f} on {self.processors} processors", *stalls, *stolen])


def of_text(where: str, text: str) -> Pressure | None:
    """Read what READ prints; None where it is not that."""
    lines = text.splitlines()
    try:
        processors, (last_minute, five, fifteen) = int(lines[0]), map(float, lines[1].split()[:3])
    except (IndexError, ValueError):
        return None
    return Pressure(where, processors, (last_minute, five, fifteen), _stalled(text), _stolen(TIMES.findall(text)))


def _stalled(text: str) -> dict[str, float]:
    return {f"{kind} {who}": float(share) for kind, who, share in STALL.findall(text)}


def _stolen(times: Sequence[str]) -> float | None:
    """Return the percentage of the time between two readings that was stolen."""
    if len(times) < 2:
        return None
    first, last = ([int(number) for number in text.split()][:OF_THE_PROCESSOR] for text in (times[0], times[-1]))
    every = sum(last) - sum(first)
    return 100 * (last[STEAL] - first[STEAL]) / every if len(last) > STEAL and every > 0 else None


def this_host() -> Pressure:
    """Return the pressure of the host that vmatrix runs on."""
    stalls: list[str] = []
    for kind in ("cpu", "io", "memory"):
        with suppress(OSError):  # a kernel without PSI
            text = (PROC / kind).read_text(encoding="ascii")
            stalls += [f"{kind} {line}" for line in text.splitlines()]
    return Pressure("this host", len(os.sched_getaffinity(0)), os.getloadavg(), _stalled("\n".join(stalls)))


def memory_available_mib(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return how much of this host's memory is free or can be freed at once, in MiB."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines())
    return int(fields["MemAvailable"].split()[0]) // 1024
