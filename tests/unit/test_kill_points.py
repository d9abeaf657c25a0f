"""The points at which runs are ended: enough, each by a name of its own, and all in the page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kill import table, whole_host
from tests.kill.points import PARTS, POINTS
from tests.kill.test_points import HOOK
from tests.kill.world import NAME

TRIES = """
import os, subprocess, urllib.request
from pathlib import Path
print("began", flush=True)
Path("one").write_text("1")
Path("two").write_text("2")
subprocess.run(["true"])
os.remove("one")
print("ended", flush=True)
"""


def test_there_are_enough_points_and_each_has_a_name() -> None:
    assert len({point.name for point in POINTS}) == len(POINTS) >= 40
    assert {*PARTS, "run", "group", "worker", "power"} == {point.what for point in POINTS}
    assert {point.how for point in POINTS} == {"KILL", "TERM", "disk full", "memory"}


def test_the_page_has_the_table_as_it_is() -> None:
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.page(text) == text, "python -m tests.kill.table"
    known = {point.name for point in POINTS} | set(table.DOUBLES)
    assert table.read().keys() <= known


@pytest.mark.parametrize(
    ("at", "left"),
    [("file:1", set()), ("file:2", {"one"}), ("process:1", {"one", "two"}), ("remove:1", {"one", "two"})],
)
def test_a_process_ends_itself_before_the_call_that_is_meant(at: str, left: set[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TRIES, encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(HOOK), "KILL_AT": at}
    command = [sys.executable, str(program)]
    meant = {**environment, "KILL_IN": str(program)}
    done = subprocess.run(command, cwd=work, env=meant, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "began\n"), done.stderr
    assert {path.name for path in work.iterdir()} == left
    other = {**environment, "KILL_IN": "another"}
    done = subprocess.run(command, cwd=work, env=other, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "began\nended\n"), done.stderr


def test_what_came_and_what_went_differs() -> None:
    before = {"mount /a x", "process sleep no. 1"}
    after = {"process sleep no. 1", "process sleep no. 2", "file /tmp/x"}
    lines = ["+ file /tmp/x", "+ process sleep no. 2", "- mount /a x"]
    assert whole_host.difference(before, after) == lines


def test_files_of_a_world_are_seen_but_for_those_of_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_host, "WRITTEN", tmp_path)
    monkeypatch.setattr(whole_host, "LOOKED_AT", ())
    for name in ("root/.cache/vmatrix/own", "root/.cache/foreign", "etc/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1", encoding="utf-8")
    seen = {line.partition(" of ")[0] for line in whole_host.files({Path("/root/.cache/vmatrix")})}
    assert seen == {"file /root/.cache/foreign", "file /etc", "file /etc/x"}
    first = set(whole_host.files({Path("/root")}))
    os.utime(tmp_path / "etc" / "x", (1, 1))
    assert first ^ set(whole_host.files({Path("/root")})), "a file that was changed looks the same"


def test_a_setting_is_compared_and_what_counts_by_itself_is_not() -> None:
    assert whole_host.is_setting("vm.overcommit_memory = 1")
    assert not whole_host.is_setting("fs.file-nr = 1 2 3")
    assert not whole_host.is_setting("kernel.ns_last_pid = 7")


def test_without_a_world_the_points_are_refused() -> None:
    environment = {name: value for name, value in os.environ.items() if name != NAME}
    command = [sys.executable, "-m", "pytest", "tests/kill", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=HOOK.parents[2], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 4
    assert "python -m tests.kill.world" in done.stderr
