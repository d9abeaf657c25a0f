"""Passes over a healthy cell: what fails is told and kept, and the processes that make the load are ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.until import Deadline, NotYet, until
from tests.faults import passes
from tests.faults.passes import Pass

GOOD, BAD = Pass(41.5, 30.0, ()), Pass(40.0, 31.0, ("nodes: test_a: not true",))


def children() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="utf-8").split())


def test_passes_are_kept(tmp_path: Path) -> None:
    assert passes.read(tmp_path) == []
    passes.write([GOOD, BAD], tmp_path / "new")
    assert passes.read(tmp_path / "new") == [GOOD, BAD]


def test_a_false_alarm_is_counted_and_shown() -> None:
    assert passes.report([GOOD, BAD], 50) == "2 of 50 passes over a healthy cell at load 40 and more: 1 failed"
    assert passes.line(2, BAD) == "pass 2 at load 40: failed (31 s)\n  nodes: test_a: not true"


def test_the_load_ends_with_what_it_is_for() -> None:
    before = children()
    with passes.busy(2):
        assert len(children() - before) == 2
    assert children() == before


def test_the_load_ends_when_its_maker_was_killed() -> None:
    maker = (
        "import os, subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', sys.argv[1], str(os.getpid())]).pid, flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", maker, passes.BUSY], capture_output=True, text=True, check=True)
    process = Path("/proc", done.stdout.strip(), "cmdline")

    def ended() -> bool | NotYet:
        left = process.read_bytes() if process.exists() else b""
        return b"getppid" not in left or NotYet("it runs")

    assert until(ended, deadline=Deadline.after(60), what="the busy process to end")
