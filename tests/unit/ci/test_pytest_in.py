"""Environments of tox.ini that run tests can be narrowed down: what is typed replaces what it is within."""

from __future__ import annotations

import configparser
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci.pytest_in import arguments
from tests.unit.pages import ROOT


@pytest.mark.parametrize(
    ("own", "typed", "becomes"),
    [
        ("tests/a", "", "tests/a"),
        ("tests/a", "-k full", "tests/a -k full"),
        ("tests/a", "tests/a/b -k full", "tests/a/b -k full"),
        ("tests/a", "tests/a/test_b.py::test_c[d/e]", "tests/a/test_b.py::test_c[d/e]"),
        ("tests/a", "-x tests/a/b tests/a/c", "-x tests/a/b tests/a/c"),
        ("tests/a", "tests/b", "tests/a tests/b"),
        ("tests/a", "--basetemp /tmp/tests/a/b", "tests/a --basetemp /tmp/tests/a/b"),
        ("tests/a -n 2 -m cells", "tests/a/b", "-n 2 -m cells tests/a/b"),
        ("tests/a/b tests/a/c -n 2", "tests/a/c/d", "-n 2 tests/a/c/d"),
        ("tests/a/test_b.py", "tests/a/test_b.py::test_c", "tests/a/test_b.py::test_c"),
        ("-p no:cacheprovider tests/a", "--shard 1/4", "-p no:cacheprovider tests/a --shard 1/4"),
    ],
)
def test_what_is_typed_takes_the_place_of_what_it_is_within(own: str, typed: str, becomes: str) -> None:
    assert arguments([*own.split(), "--", *typed.split()]) == becomes.split()
    if not typed:
        assert arguments(own.split()) == becomes.split()


def test_every_environment_that_runs_tests_can_be_narrowed_down() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    seen = []
    for environment in tox.sections():
        for line in re.sub(r"\\\n", " ", tox.get(environment, "commands", fallback="")).splitlines():
            words = shlex.split(line)
            if any(re.match(r"tests/\S", word) for word in words):
                seen.append(environment)
                assert words[-2:] == ["--", "{posargs}"], environment
                assert "-P -m ci.pytest_in" in line, environment
    assert len(seen) > 15


OPTIONS = ["-s", "-p", "no:cacheprovider", "-c", "/dev/null"]
SLOW = """
import pathlib, time
import pytest

@pytest.fixture
def machine(tmp_path_factory):
    yield
    pathlib.Path(__file__).with_name("down").touch()

def test_fails():
    assert "a word" == "another"

def test_lasts(machine):
    print("up", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_a_job_that_is_ended_takes_down_what_it_made_and_says_what_failed(tmp_path: Path, end: signal.Signals) -> None:
    (tmp_path / "test_slow.py").write_text(SLOW, encoding="utf-8")
    words = [sys.executable, "-P", "-m", "ci.pytest_in", *OPTIONS, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        seen = ""
        for line in running.stdout:
            seen += line
            if "up" in line:
                running.send_signal(end)
        code = running.wait(timeout=60)
    assert (tmp_path / "down").exists(), seen
    assert code == pytest.ExitCode.INTERRUPTED
    assert "'a word' == 'another'" in seen
