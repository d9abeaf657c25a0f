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


def test_what_came_and_what_went_differs_and_what_counts_by_itself_does_not() -> None:
    before = {"mount /a x", "sysctl fs.inode-nr = 1", "process 7 sleep"}
    after = {"sysctl fs.inode-nr = 2", "process 7 sleep", "link vmx0: UP", "file /tmp/x"}
    lines = ["+ file /tmp/x", "+ link vmx0: UP", "- mount /a x"]
    assert whole_host.difference(before, after, {"sysctl fs.inode-nr"}) == lines
    assert whole_host.difference(before, after, (), "vmx0") == ["+ link vmx0: UP"]
    looks = iter([{"sysctl a = 1", "file /x"}, {"sysctl a = 2", "file /x"}])
    assert whole_host.steady(lambda: next(looks)) == ({"sysctl a = 2", "file /x"}, {"sysctl a"})
