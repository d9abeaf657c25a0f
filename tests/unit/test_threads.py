"""Work in threads is ended or goes on beside other work, and a thread that never begins ends the process."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from harness import proc, threads
from harness.errors import EXIT_INFRA, BadInput, InfraError
from harness.proc import run
from harness.threads import NO_MEMORY, alongside, begun, in_background


def test_who_waits_for_work_gets_its_result_as_often_as_asked() -> None:
    with begun(lambda: threading.current_thread().name) as result:
        assert (result(), result()) == ("begun", "begun")


def test_who_waits_for_work_gets_its_error() -> None:
    def fail() -> None:
        raise BadInput("no such program")

    with begun(fail) as result, pytest.raises(BadInput, match="no such program"):
        result()


def test_an_error_that_nobody_waits_for_is_nobodys() -> None:
    def fail() -> None:
        raise BadInput("no such program")

    with begun(fail):
        pass


def test_work_that_nobody_waits_for_any_more_ends() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            while True:
                threads.check()
                time.sleep(0.01)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt), begun(work):
        raise KeyboardInterrupt
    assert ended.is_set()


SCRIPT = """
import resource, threading
from harness.threads import end_without_threads
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
    assert NO_MEMORY.decode() in done.stderr


def test_a_process_whose_threads_begin_goes_on() -> None:
    done = run([sys.executable, "-c", SCRIPT.format(full=False)], timeout=60)
    assert (done.stdout, done.stderr) == ("begun\n", "")


SOON = 60.0  # until what is certain to happen has happened, on a host that stands still for a while


def test_both_run_at_the_same_time_and_it_is_waited_for() -> None:
    begun, body, done = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        assert body.wait(SOON)
        done.set()

    with alongside(call, pytest.fail):
        assert begun.wait(SOON)
        body.set()
    assert done.is_set()


def test_it_ends_with_a_body_that_fails() -> None:
    begun, ended = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        try:
            proc.run(["sleep", "3600"], timeout=3600)
        finally:
            ended.set()

    def body() -> None:
        assert begun.wait(SOON)
        raise InfraError("no luck")

    with pytest.raises(InfraError, match="no luck"), alongside(call, pytest.fail):
        body()
    assert ended.wait(SOON)


def test_its_own_failure_is_told_and_ends_nothing() -> None:
    told: list[str] = []

    def call() -> None:
        raise InfraError("no mirror")

    with alongside(call, told.append):
        pass
    assert told == ["no mirror; it is tried again when it is needed"]


def test_nobody_waits_for_what_tidies_up_and_its_failure_is_told() -> None:
    told: list[str] = []
    going, goes = threading.Event(), threading.Event()

    def call() -> None:
        going.set()
        assert goes.wait(SOON)
        raise OSError("no room")

    thread = in_background(call, told.append)
    assert going.wait(SOON)
    assert thread.daemon
    goes.set()
    thread.join(SOON)
    assert told == ["no room; it is tried again after the next build"]
