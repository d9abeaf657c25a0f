"""Pressure: how busy the host of a cell's machines is by its own account, and whether it could have done any better.

Load and pressure stall information are averages that the kernel keeps, so they tell of the minutes before a failure
when they are read after it (proc_loadavg(5); docs.kernel.org, "PSI - Pressure Stall Information"). Machines of the
embedded infrastructure show those of this host. Others show their own, and how much of their processors was stolen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import VmatrixError
from harness.machines.reach.ssh import run_on
from harness.model import Machine

PROC = Path("/proc")
# A healthy cell passed all checks at loads up to 23 for each processor (docs/checks.md), and failed above 30.
MOST_LOAD = 20.0
# Shares of a minute in which something, or everything, stood still for want of it: what a cluster does not stand.
MOST_STALLED = {"io full": 50.0, "memory full": 20.0}
MOST_STOLEN = 30.0  # percent of a machine's processors that its host gave to others
SHOWN = ("cpu some", *MOST_STALLED)
LOOK_SECONDS = 20.0  # for a machine's answer; one that has none is left out
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

    load: the highest average of one, five and fifteen minutes: what it made restart, stays so.
    stalled: percent of the last minute, by resource and kind ("cpu some").
    stolen: percent of the processors' time, None where it was not measured.
    """

    where: str
    processors: int
    load: float
    stalled: Mapping[str, float]
    stolen: float | None = None

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
        processors, load = int(lines[0]), max(map(float, lines[1].split()[:3]))
    except (IndexError, ValueError):
        return None
    stalled = {f"{kind} {who}": float(share) for kind, who, share in STALL.findall(text)}
    return Pressure(where, processors, load, stalled, _stolen(TIMES.findall(text)))


def _stolen(times: Sequence[str]) -> float | None:
    """Return the percentage of the time between two readings that was stolen."""
    if len(times) < 2:
        return None
    first, last = ([int(one) for one in text.split()][:OF_THE_PROCESSOR] for text in (times[0], times[-1]))
    every = sum(last) - sum(first)
    return 100 * (last[STEAL] - first[STEAL]) / every if len(last) > STEAL and every > 0 else None


def this_host() -> Pressure | None:
    """Return the pressure of the host that vmatrix runs on; None where its kernel does not tell."""
    parts = [str(len(os.sched_getaffinity(0)))]
    with suppress(OSError):
        parts.append((PROC / "loadavg").read_text(encoding="ascii").strip())
    for kind in ("cpu", "io", "memory"):
        with suppress(OSError):  # a kernel without PSI
            text = (PROC / "pressure" / kind).read_text(encoding="ascii")
            parts += [f"{kind} {line}" for line in text.splitlines()]
    return of_text("this host", "\n".join(parts))


def of_machines(machines: Sequence[Machine], private_key: Path) -> list[Pressure]:
    """Return the pressure of every machine that answers."""

    def ask(machine: Machine) -> Pressure | None:
        try:
            done = run_on(machine, READ, private_key=private_key, timeout=LOOK_SECONDS)
        except VmatrixError:  # what cannot be asked explains nothing
            return None
        return of_text(machine.name, done.stdout) if done.returncode == 0 else None

    if not machines:
        return []
    with ThreadPoolExecutor(len(machines)) as pool:
        return [one for one in pool.map(ask, machines) if one is not None]


def overload(machines: Sequence[Machine], private_key: Path) -> str:
    """Say where a cluster could not be in time, "" where it could; this host is asked first."""
    own = this_host()
    if own is not None and own.too_high:
        return str(own)
    return "; ".join(str(one) for one in of_machines(machines, private_key) if one.too_high)
