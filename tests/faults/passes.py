"""Passes over a healthy cell on a busy host: whatever fails in one is a false alarm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.files import write_atomically
from harness.until import Deadline
from tests.faults.cells import Patient
from tests.faults.suites import SUITES, Checks

FILE = "passes.json"
# ends by itself when whoever started it has ended
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(1000000))\n"
SHOWN = 900  # characters of a message


@dataclass(frozen=True)
class Pass:
    """One pass: the host's load when it ended, how long it took, and what each check said that did not pass."""

    load: float
    seconds: float
    said: tuple[str, ...]


def read(directory: Path) -> list[Pass]:
    """Return the passes of earlier calls."""
    file = directory / FILE
    there = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    return [Pass(one["load"], one["seconds"], tuple(one["said"])) for one in there]


def write(passes: Sequence[Pass], directory: Path) -> None:
    """Keep passes."""
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(directory / FILE, json.dumps([asdict(one) for one in passes], indent=1) + "\n")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the host busy with so many processes, each of which would fill a core."""
    command = [sys.executable, "-S", "-c", BUSY, str(os.getpid())]
    started = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def one(patient: Patient, checks: Checks) -> Pass:
    """Run all suites once, as a run would."""
    began, inspection = time.monotonic(), patient.inspection()
    inspection.wait_for_api()
    said = tuple(f"{each.check}: {each.text[:SHOWN]}" for each in checks.failures(inspection, SUITES))
    return Pass(round(os.getloadavg()[0], 1), round(time.monotonic() - began, 1), said)


def run(patient: Patient, checks: Checks, wanted: int, deadline: Deadline, tell: Callable[[Pass], None]) -> None:
    """Run so many passes, or fewer until the deadline; tell of each."""
    for _ in range(wanted):
        if not deadline.remaining():
            return
        tell(one(patient, checks))


def line(number: int, seen: Pass) -> str:
    """Return what a person reads of a pass."""
    word = "failed" if seen.said else "passed"
    return "\n".join(
        [f"pass {number} at load {seen.load:g}: {word} ({seen.seconds:.0f} s)", *(f"  {s}" for s in seen.said)]
    )


def report(passes: Sequence[Pass], wanted: int) -> str:
    """Return the outcome of all."""
    failed = sum(bool(seen.said) for seen in passes)
    lowest = min((seen.load for seen in passes), default=0.0)
    return f"{len(passes)} of {wanted} passes over a healthy cell at load {lowest:g} and more: {failed} failed"
