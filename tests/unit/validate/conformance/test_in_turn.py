"""The first processes of e2e.test go first; each of the others gives way to those before it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import proc
from harness.validate.conformance.in_turn import in_turn

SAYS = '#!/bin/sh\necho "$(nice)"\nfor word; do echo "$word"; done\n'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what is called in place of a program that says its priority and its arguments, on two processors."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    (tmp_path / "the cache").mkdir()
    program = tmp_path / "the cache" / "e2e.test"
    program.write_text(SAYS, encoding="utf-8")
    program.chmod(0o755)
    return in_turn(program, tmp_path)


@pytest.mark.parametrize(("number", "behind"), [(1, 0), (2, 0), (3, 3), (4, 6), (6, 10), (12, 10)])
def test_a_process_gives_way_to_those_before_it(number: int, behind: int, script: Path) -> None:
    words = [
        "--test.timeout=0",
        f"--ginkgo.parallel.process={number}",
        "--ginkgo.focus=^a (b|c) \\[d\\]$",
        "--",
        "-x y",
    ]
    said = proc.run([script, *words], timeout=20).stdout.splitlines()
    assert int(said[0]) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + behind)
    assert said[1:] == words


def test_a_process_without_a_number_goes_first(script: Path) -> None:
    assert proc.run([script, "--list-tests"], timeout=20).stdout.splitlines() == [
        str(os.getpriority(os.PRIO_PROCESS, 0)),
        "--list-tests",
    ]


def test_ginkgo_takes_it_for_a_suite(script: Path) -> None:
    assert script.suffix == ".test", "ginkgo would compile it"


def test_where_nothing_can_be_executed_all_get_ready_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert in_turn(Path("/t/e2e.test"), tmp_path) == Path("/t/e2e.test")
