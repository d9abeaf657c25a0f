"""A process that has no memory for another thread ends and says so; others do not notice the watch."""

from __future__ import annotations

import sys

from harness.beginnings import SAID
from harness.errors import EXIT_INFRA
from harness.proc import run

SCRIPT = """
import resource, threading
from harness.beginnings import end_without_threads
end_without_threads(seconds=0.5, look=0.1)
end_without_threads(seconds=0.5, look=0.1)
go = threading.Event()
first = [threading.Thread(target=go.wait) for _ in range(4)]
[thread.start() for thread in first]
go.set()
[thread.join() for thread in first]  # the C library keeps their stacks for the next ones
assert threading.active_count() == 2
if {full}:
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(),) * 2)
    held = []
    for size in (10**6, 1000, 8):
        try:
            while True:
                held.append(bytes(size))
        except MemoryError:
            pass
    del held[-20000:]  # enough for this thread to go on, not for the first memory of another one
threading.Thread(target=lambda: print("begun")).start()
import time
time.sleep(1)
"""


def test_a_process_without_memory_for_a_thread_ends() -> None:
    done = run([sys.executable, "-c", SCRIPT.format(full=True)], timeout=60, check=False)
    assert done.returncode == EXIT_INFRA, done.stderr
    assert SAID.decode() in done.stderr


def test_a_process_whose_threads_begin_goes_on() -> None:
    done = run([sys.executable, "-c", SCRIPT.format(full=False)], timeout=60)
    assert (done.stdout, done.stderr) == ("begun\n", "")
