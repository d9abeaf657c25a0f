"""Makes a kept cell slow on purpose and looks whether its figures say so: `python -m tests.slowness --help`.

First the cell is measured as it is, so that there are runs before. Then it is slowed down, measured three times and set
free again, in each way. The runs of a slow cell are put aside after that: they are not what is usual.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.rundir import RESULTS
from harness.validate.performance.comparison import FEWEST, NOW
from tests.slowness.slow import Slowness, load, named, script

VMATRIX = str(Path(sys.executable).with_name("vmatrix"))
LAST = "test_nothing_is_slower_than_usual"
SECONDS = 1800.0  # against hanging: one check of a suite
FOUND = re.compile(r"^results: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Measured:
    """One check of the cell: what its last item said, and the folder of its results."""

    said: str
    folder: Path


@dataclass(frozen=True)
class Slowed:
    """The cell, and how it is reached."""

    cell: str
    infra: str

    def run(self, machine: str, commands: str) -> subprocess.CompletedProcess[str]:
        """Run commands on a machine, as root."""
        argv = [VMATRIX, "login", "--infra-name", self.infra, self.cell, machine, "--", "sudo", "sh", "-s"]
        return subprocess.run(
            argv, input=script(commands), text=True, capture_output=True, timeout=SECONDS, check=False
        )

    def measure(self, checks: str) -> Measured:
        """Measure once; return what the last check said, and where its results are.

        Raises:
            RuntimeError: it did not run.
        """
        argv = [VMATRIX, "check", self.cell, "--infra-name", self.infra, "--suite", "performance"]
        argv += ["-k", f"({checks}) or {LAST}"]
        began = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
        found = FOUND.search(done.stdout)
        results = Path(found[1].strip()) if found is not None else Path()
        said = _said(results) if found is not None else ""
        if not said:
            raise RuntimeError(f"{' '.join(argv)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        _say(f"  {time.monotonic() - began:.0f} s: {said[:400]}")
        return Measured(said, results.parent)


def main(argv: Sequence[str]) -> int:
    """Return 0 if every slowness was found within three runs and named."""
    given = _arguments(argv)
    cell = Slowed(given.cell, given.infra_name)
    chosen = [one for one in load() if not given.id or one.id in given.id]
    every = " or ".join(dict.fromkeys(one.measure for one in chosen))
    for number in range(given.usual):
        _say(f"as it is, {number + 1} of {given.usual}")
        cell.measure(every)
    found = [_tried(cell, one) for one in chosen]  # each, whatever became of those before
    return 0 if all(found) else 1


def _tried(cell: Slowed, slowness: Slowness) -> bool:
    """Slow the cell down, measure it, set it free; tell whether it was named."""
    way = _inject(cell, slowness)
    if not way:
        return False
    runs = []
    try:
        for number in range(NOW):
            _say(f"{slowness.id} by {way}, {number + 1} of {NOW}")
            runs.append(cell.measure(slowness.measure))
    finally:
        done = cell.run(slowness.machine, slowness.undo)
        _say(f"{slowness.id}: undone" if done.returncode == 0 else f"{slowness.id}: NOT undone: {done.stderr[-500:]}")
        for run in runs:
            run.folder.rename(run.folder.with_name(f"{run.folder.name}-{slowness.id}"))
    found = named(slowness, runs[-1].said)
    _say(f"{slowness.id}: {slowness.what}: {f'found: {found}' if found else 'MISSED'}")
    return bool(found)


def _inject(cell: Slowed, slowness: Slowness) -> str:
    """Slow the cell down in the first way that works; return its name, "" without one."""
    for way, commands in slowness.ways.items():
        done = cell.run(slowness.machine, commands)
        if done.returncode == 0:
            return way
        _say(f"{slowness.id}: {way} does not work here: {(done.stdout + done.stderr).strip()[-200:]}")
    _say(f"{slowness.id}: NOT injected")
    return ""


def _said(path: Path) -> str:
    """Return what the last check of the suite said, "" where it did not run."""
    file = path if path.name == RESULTS else path / RESULTS
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    last = [one for one in events if one["event"] == "check" and one["name"].startswith(LAST)]
    return str(last[-1].get("properties", {}).get("measured", "")) if last else ""


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.slowness", description=__doc__)
    parser.add_argument("cell", help="a cell that a run of the tier performance kept")
    parser.add_argument("--infra-name", default="default", help="its embedded infrastructure")
    parser.add_argument("--usual", type=int, default=FEWEST + 1, help="measurements of the cell as it is")
    parser.add_argument("--id", action="append", help="only this slowness; can be repeated")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
