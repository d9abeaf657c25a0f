"""The processor time of another process, as the bench of the sweep counts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.bench.sweep import processor_seconds


def test_a_process_has_taken_what_it_says_itself() -> None:
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    before = processor_seconds(os.getpid())
    own = sum(os.times()[:2])
    assert 0.1 <= before <= own + 0.02  # ticks of the kernel's clock are a hundredth of a second


def test_a_process_that_is_gone_has_taken_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert processor_seconds(process.pid) == 0.0
