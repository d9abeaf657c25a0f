"""Processor time of a thread's own work and of what it started; not of what other threads do."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.artifacts import meter
from harness.artifacts.meter import Meter
from harness.until import Deadline, NotYet, until

SOON = 60.0
BURN = "import time\nwhile time.process_time() < {seconds}: pass\n{then}"


@contextmanager
def burning(seconds: float, then: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a process that uses so many processor seconds, says so, and does something else."""
    code = BURN.format(seconds=seconds, then=f"print('used', flush=True)\n{then}")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "used\n"
            yield child
        finally:
            child.kill()


def used(watched: Meter) -> float:
    seconds = watched.look()
    assert seconds is not None
    return seconds


def test_what_a_thread_does_itself_counts() -> None:
    watched, began = Meter(), time.thread_time()
    while time.thread_time() - began < 0.2:
        pass
    assert 0.15 <= used(watched) <= time.thread_time() - began + 0.05


def test_a_process_counts_while_it_runs_and_after_it_has_ended() -> None:
    watched = Meter()
    with burning(0.3, "input()"):
        running = used(watched)
    assert running >= 0.28
    assert running <= used(watched) <= running + 0.5


def test_processes_of_processes_count() -> None:
    watched = Meter()
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN.format(seconds=0.3, then='')!r}])"
    with burning(0.0, f"{inner}\nprint('again', flush=True)\ninput()") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "again\n"
        assert used(watched) >= 0.28


def test_what_another_thread_started_does_not_count() -> None:
    watched, go, done = Meter(), threading.Event(), threading.Event()

    def work() -> None:
        with burning(0.4, "input()"):
            go.set()
            done.wait(SOON)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert go.wait(SOON)
        assert used(watched) < 0.3
    finally:
        done.set()
        thread.join()


def test_a_service_that_the_thread_started_before_does_not_count() -> None:
    with burning(0.3, "while time.process_time() < 0.6: pass\nprint('again', flush=True)\ninput()") as child:
        watched = Meter()
        assert child.stdout is not None
        assert child.stdout.readline() == "again\n"
        assert used(watched) < 0.2


def test_another_thread_may_look_and_nothing_counts_twice() -> None:
    watched, seen = Meter(), list[float]()

    def look() -> float | NotYet:
        seen.append(used(watched))
        return seen[-1] if len(seen) >= 50 else NotYet("not often enough")

    thread = threading.Thread(target=lambda: until(look, deadline=Deadline.after(SOON), what="looks", interval=0.01))
    thread.start()
    for _ in range(10):
        with burning(0.05):
            used(watched)
    thread.join()
    assert seen == sorted(seen)
    assert 0.39 <= used(watched) <= 10 * 0.5  # it is counted in hundredths


def test_without_the_kernels_word_there_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(meter, "PROC", tmp_path)
    assert Meter().look() is None


def test_the_speed_of_this_host_is_a_moderate_number() -> None:
    assert 0.1 < meter.speed() < 20
