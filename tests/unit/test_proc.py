"""Processes: pasteable errors, time-outs that kill the whole group, services that are never mistaken for another."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from harness import proc, threads
from harness.errors import InfraError
from harness.proc import (
    OF_A_REPOSITORY,
    CommandFailed,
    CommandTimedOut,
    Service,
    failing_as_infra,
    follow,
    pasteable,
    reason_in,
    run,
    spawn,
    stream,
)
from harness.until import Deadline, NotYet, until
from tests.unit.pages import ROOT

PORT_TAKEN = "[ERROR Port-6443]: Port 6443 is in use"


def living(group: int) -> list[int]:
    """Return the processes of a group that are not zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def wait_for_the_end(group: int) -> None:
    """Wait until no process of a group lives: a killed one closes its pipes a moment before it is gone."""
    until(
        lambda: NotYet(f"{left} live") if (left := living(group)) else True,
        deadline=Deadline.after(10),
        what="the whole group is gone",
        interval=0.01,
    )


def test_output_and_status_are_kept() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=10, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_failure_can_be_pasted_into_a_shell() -> None:
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", "echo 'why it failed' >&2; exit 1"], timeout=10)
    assert "`sh -c 'echo '\"'\"'why it failed" in caught.value.summary
    assert caught.value.detail == "why it failed"


def test_a_program_that_does_not_exist_is_said() -> None:
    with pytest.raises(CommandFailed, match="could not be started: No such file"):
        run(["/nonexistent/program"], timeout=1)


def test_a_commands_failure_can_be_the_infrastructures(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(InfraError) as caught, failing_as_infra("no disk", hint="df -h"):
        run(["sh", "-c", "echo why; exit 3"], timeout=10, log=log)
    assert caught.value.summary == "no disk: why"
    assert caught.value.detail == "`sh -c 'echo why; exit 3'` ended with status 3\nwhy"
    assert (caught.value.paths, caught.value.hint) == ((log,), "df -h")


def test_nothing_but_a_command_is_turned_into_the_infrastructures_failure() -> None:
    with pytest.raises(ValueError, match="ours"), failing_as_infra("no disk", hint="df -h"):
        raise ValueError("ours")


@pytest.mark.parametrize("follow", [False, True])
def test_a_time_out_kills_the_whole_group(tmp_path: Path, follow: bool) -> None:
    log = tmp_path / "log" if follow else None
    with pytest.raises(CommandTimedOut, match="did not end within 2 s and was killed"):
        run(["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 60 & wait"], timeout=2, log=log)
    group = int((tmp_path / "pid").read_text())
    wait_for_the_end(group)


def test_lines_are_told_as_they_come_and_logged(tmp_path: Path) -> None:
    lines: list[str] = []
    done = run(["sh", "-c", "echo a; echo b >&2"], timeout=10, log=tmp_path / "log", on_line=lines.append)
    assert sorted(lines) == ["a", "b"]
    assert done.stdout == (tmp_path / "log").read_text()


def test_a_command_that_is_followed_may_end_in_its_own_way(tmp_path: Path) -> None:
    script = "trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with pytest.raises(CommandTimedOut, match="did not end within 1 s") as late:
        follow(["sh", "-c", script], timeout=1, grace=20, log=tmp_path / "log")
    assert late.value.done.stdout == (tmp_path / "log").read_text() == "ready\ntidy\n"


def test_a_whole_group_may_end_in_its_own_way(tmp_path: Path) -> None:
    part = "trap 'echo part ended; exit' TERM; sleep 60 & wait"
    (tmp_path / "part").write_text(f"{part}\n", encoding="utf-8")
    script = f"trap 'wait; echo all ended; exit' TERM; sh {tmp_path}/part & wait"
    with pytest.raises(CommandTimedOut) as late:
        follow(["sh", "-c", script], timeout=1, grace=20, log=tmp_path / "log", whole=True)
    assert late.value.done.stdout == "part ended\nall ended\n"
    assert late.value.done.seconds < 15


def test_a_command_that_is_followed_and_does_not_end_is_killed(tmp_path: Path) -> None:
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done"
    with pytest.raises(CommandTimedOut):
        follow(["sh", "-c", script], timeout=1, grace=0.3, log=tmp_path / "log")
    group = int((tmp_path / "pid").read_text())
    wait_for_the_end(group)


def test_an_interrupt_ends_a_command_that_is_followed(tmp_path: Path) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    script = f"trap 'echo > {tmp_path}/tidy; exit' TERM; echo ready; while :; do sleep 0.1; done"
    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", script], timeout=60, grace=20, log=tmp_path / "log", on_line=interrupted)
    assert (tmp_path / "tidy").exists()


def test_a_command_that_is_followed_and_not_wanted_any_more_is_killed(tmp_path: Path) -> None:
    stop = threading.Event()
    script = f"echo $$ > {tmp_path}/pid; echo ready; while :; do sleep 0.1; done"
    with threads.stoppable(stop), pytest.raises(threads.NotWanted):
        follow(
            ["sh", "-c", script], timeout=60, grace=20, log=tmp_path / "log", on_line=lambda _: stop.set(), whole=True
        )
    wait_for_the_end(int((tmp_path / "pid").read_text()))


def test_the_status_of_a_command_that_is_followed_is_the_callers_to_judge(tmp_path: Path) -> None:
    assert follow(["sh", "-c", "exit 3"], timeout=9, grace=1, log=tmp_path / "log").returncode == 3


def test_input_is_fed() -> None:
    assert run(["cat"], timeout=10, stdin="hello").stdout == "hello"


def test_a_service_is_known_by_pid_and_start_time(tmp_path: Path) -> None:
    service = spawn(["sleep", "60"], log=tmp_path / "log", pidfile=tmp_path / "pid")
    try:
        assert Service.load(tmp_path / "pid") == service
        assert service.alive()
        impostor = Service(service.pid, service.started + 1, service.argv)
        assert not impostor.alive()
        impostor.stop(grace=0)
        assert service.alive()
    finally:
        service.stop(grace=5)
    assert not service.alive()
    service.stop(grace=0)


def test_a_service_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    service = spawn(["sh", "-c", f"trap '' TERM; touch {ready}; sleep 60"], log=tmp_path / "log")
    while not ready.exists():
        os.sched_yield()
    service.stop(grace=0.1)
    assert not service.alive()


@pytest.mark.parametrize("content", ["", "{", '{"pid": 1}', '{"pid": "x", "started": 1, "argv": []}'])
def test_an_unreadable_pid_file_is_no_service(tmp_path: Path, content: str) -> None:
    (tmp_path / "pid").write_text(content)
    assert Service.load(tmp_path / "pid") is None


def test_pasteable_quotes() -> None:
    assert pasteable(["a b", Path("/c")]) == "'a b' /c"


def test_lines_come_as_they_are_printed_and_the_command_ends_with_who_reads_them(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    lines = stream(["sh", "-c", f"echo $$ > {mark}; echo one; sleep 60"])
    assert next(lines) == "one"
    group = int(mark.read_text())
    lines.close()  # type: ignore[attr-defined] # a generator
    wait_for_the_end(group)


def test_a_streamed_command_that_fails_says_why() -> None:
    lines = stream(["sh", "-c", "echo one; echo why >&2; exit 3"])
    assert next(lines) == "one"
    with pytest.raises(CommandFailed, match="ended with status 3") as failed:
        next(lines)
    assert failed.value.detail == "why"


def test_a_streamed_command_that_is_not_wanted_any_more_is_killed() -> None:
    stop = threading.Event()
    with threads.stoppable(stop):
        lines = stream(["sh", "-c", "echo one; sleep 60"])
        assert next(lines) == "one"
        stop.set()
        with pytest.raises(threads.NotWanted):
            next(lines)


def test_an_orphan_that_keeps_the_output_open_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "LAST_SECONDS", 0.3)
    script = f"setsid sh -c 'echo $$ > {tmp_path}/orphan; exec sleep 60' & sleep 60"
    try:
        with pytest.raises(CommandFailed, match="did not end within 1 s and was killed"):
            run(["sh", "-c", script], timeout=1, log=tmp_path / "log")
    finally:
        os.kill(int((tmp_path / "orphan").read_text()), signal.SIGKILL)


def test_a_worker_with_another_session_goes_with_its_command(tmp_path: Path) -> None:
    worker = f"echo $$ > {tmp_path}/worker; sleep 60 & wait"
    (tmp_path / "work").write_text(f"{worker}\n", encoding="utf-8")
    script = f"setsid sh {tmp_path}/work & wait"
    with pytest.raises(CommandFailed, match="did not end within 2 s and was killed"):
        run(["sh", "-c", script], timeout=2)
    group = int((tmp_path / "worker").read_text())
    wait_for_the_end(group)


def test_a_command_that_closes_its_output_and_stays_is_killed(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="did not end within 1 s and was killed"):
        run(["sh", "-c", "exec >&- 2>&-; sleep 60"], timeout=1, log=tmp_path / "log")


def test_output_is_text_whatever_is_written(tmp_path: Path) -> None:
    script = r"printf 'caf\303'; sleep 0.1; printf '\251\r\n\377 no end'"
    lines: list[str] = []
    done = run(["sh", "-c", script], timeout=10, log=tmp_path / "log", on_line=lines.append)
    assert lines == ["café", "\ufffd no end"]
    assert done.stdout == (tmp_path / "log").read_text() == "café\n\ufffd no end"


def test_a_process_without_memory_for_threads_runs_commands_to_their_end(tmp_path: Path) -> None:
    """CPython waits forever for a thread that finds no memory as it begins."""
    script = (
        "import threading, pathlib, harness.proc as proc\n"
        "def no_thread(*_): raise AssertionError('a thread')\n"
        "threading.Thread.start = no_thread\n"
        f"print(proc.run(['echo', 'a'], timeout=9, log=pathlib.Path('{tmp_path}/log')).stdout)"
    )
    assert run([sys.executable, "-c", script], timeout=60).stdout == "a\n\n"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", ""),
        ("one\ntwo\n", "two"),
        ("Creating cluster ...\n\x1b[31mERROR\x1b[0m: port is taken\nSee the log\n", "ERROR: port is taken"),
        ('ERROR: "docker exec" failed\n\t[ERROR Port-6443]: Port 6443 is in use\nTo see more: --v=5\n', PORT_TAKEN),
        ("fatal: no such branch\n", "fatal: no such branch"),
        ("E1128 10:00:00 kubelet: cgroup v1\nbye\n", "E1128 10:00:00 kubelet: cgroup v1"),
        ("x" * 400, "x" * 300 + " ..."),
    ],
)
def test_the_reason_of_a_command_that_failed_is_its_own_word(output: str, reason: str) -> None:
    assert reason_in(output) == reason


def test_a_failure_of_the_infrastructure_begins_with_the_reason() -> None:
    script = "echo 'Creating cluster'; echo 'ERROR: no space left' >&2; echo 'see the log' >&2; exit 3"
    with pytest.raises(InfraError) as caught, failing_as_infra("kind failed", hint="df -h"):
        run(["sh", "-c", script], timeout=10)
    assert caught.value.summary == "kind failed: ERROR: no space left"
    assert "ended with status 3" in caught.value.detail


def test_what_tells_git_of_a_repository_is_what_git_says_but_for_settings() -> None:
    named = run(["git", "rev-parse", "--local-env-vars"], timeout=60).stdout.split()
    assert {name for name in named if not name.startswith("GIT_CONFIG")} <= set(OF_A_REPOSITORY)


def test_nobody_else_runs_git_on_a_folder() -> None:
    """`proc.git` alone keeps git from another repository than the folder's."""
    files = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "harness").rglob("*.py")
        if re.search(r'"git", "-C"', file.read_text("utf-8"))
    }
    assert files == {"harness/proc.py"}


def test_a_variable_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    assert run(["env"], timeout=60, env={"GONE": None, "THERE": "1"}).stdout.split("\n").count("THERE=1") == 1
    assert "GONE=" not in run(["env"], timeout=60, env={"GONE": None}).stdout
