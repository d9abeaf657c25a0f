"""What was measured: figures with their targets, the host they were taken on, and how busy others kept it."""

from __future__ import annotations

import hashlib
import os
import platform
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

SMALL_SHARE = 0.02  # of a whole: parts below it are printed as one
YARDSTICK_ROUNDS = 512  # of a megabyte each, on every core: some tenths of a second


@dataclass(frozen=True)
class Figure:
    """One thing that was measured, once or several times; the median stands for it.

    unit: "s", "MiB" or "x" (a ratio). target: at most this much is wanted, None where nobody asked.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    target: float | None = None
    note: str = ""

    @property
    def value(self) -> float:
        """Return the median."""
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """Return value / target; at most 1 is on target."""
        return None if self.target is None else self.value / self.target


@dataclass
class Ledger:
    """Everything that one bench found out, in the order in which it did.

    shares: what longer stretches of time consist of.  profiles: of playbooks, each task with its play and role.
    """

    host: dict[str, Any]
    figures: list[Figure] = field(default_factory=list)
    shares: dict[str, dict[str, float]] = field(default_factory=dict)
    profiles: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    stretch: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(
        self, name: str, unit: str, values: Sequence[float], *, target: float | None = None, note: str = ""
    ) -> None:
        """Add a figure; one without a single sample is left out."""
        if values:
            self.figures.append(Figure(name, unit, tuple(round(v, 3) for v in values), target, note))

    def share(self, title: str, samples: Sequence[Mapping[str, float]]) -> None:
        """Add what a longer stretch of time consists of: the median of each of its parts."""
        parts = dict.fromkeys(part for sample in samples for part in sample)
        if not parts:
            return
        self.shares[title] = {p: round(statistics.median(s[p] for s in samples if p in s), 3) for p in parts}

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        figures = [
            {"name": f.name, "unit": f.unit, "value": f.value, "target": f.target, "ratio": f.ratio}
            | {"values": list(f.values), "note": f.note}
            for f in self.figures
        ]
        return {
            "host": self.host,
            "figures": figures,
            "shares": self.shares,
            "profiles": self.profiles,
            "stretch": self.stretch,
            "problems": self.problems,
        }


def describe_host() -> dict[str, Any]:
    """Return what the figures depend on."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_mib": memory // 2**20,
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
    }


def stretch() -> float:
    """Return by how much other work stretches this host's time just now: 1.0 is an idle host, 2.0 one shared in half.

    Every core gets a fixed piece of work; the time on the clock is compared with the processor time it took.
    """
    cores = os.cpu_count() or 1
    block = bytes(2**20)

    def work() -> None:
        for _ in range(YARDSTICK_ROUNDS):
            hashlib.sha256(block).digest()

    threads = [threading.Thread(target=work) for _ in range(cores)]
    clock, used = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return round((time.perf_counter() - clock) * cores / max(time.process_time() - used, 1e-9), 2)


def show(ledger: Ledger, console: Console) -> None:
    """Print the figures side by side with their targets, then what the longer ones consist of."""
    host = ledger.host
    console.print(
        f"{host['cores']} x {host['processor']}, {host['memory_mib']} MiB, {host['system']}, kernel {host['kernel']}"
    )
    said = ", ".join(f"{name} {value:.2f}" for name, value in ledger.stretch.items())
    console.print(f"time stretched by other work (1.00: by none), before: {said}")
    table = Table("figure")
    for header in ("median", "target", "of target", "samples"):
        table.add_column(header, justify="right", no_wrap=header != "samples")
    table.add_column("what it covers")
    for figure in ledger.figures:
        target = "" if figure.target is None else f"{_number(figure.target, figure.unit)}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        samples = " ".join(_number(v, "") for v in figure.values)
        table.add_row(figure.name, _number(figure.value, figure.unit), target, ratio, samples, figure.note)
    console.print(table)
    for title, parts in ledger.shares.items():
        whole = sum(parts.values()) or 1.0
        inner = Table(title, "seconds", "share", title_justify="left")
        shown = {p: s for p, s in parts.items() if s >= SMALL_SHARE * whole}
        rest = sum(s for p, s in parts.items() if p not in shown)
        small = {f"each less than {SMALL_SHARE:.0%}": rest} if rest else {}
        for part, seconds in {**shown, **small}.items():
            inner.add_row(part, f"{seconds:.2f}", f"{100 * seconds / whole:.0f} %")
        console.print(inner)
    for problem in ledger.problems:
        console.print(f"DID NOT WORK: {problem}", markup=False)


def _number(value: float, unit: str) -> str:
    return (f"{value:.0f}" if value >= 100 else f"{value:.2f}") + (f" {unit}" if unit else "")
