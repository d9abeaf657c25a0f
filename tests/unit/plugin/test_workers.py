"""What is left of a run after `-k`: nothing (exit code 4), or whole lives of cells."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import EXIT_NOTHING_SELECTED, BadInput, NothingSelected
from harness.paths import project_dir
from harness.plugin.workers import items_of
from tests.unit.programs import run_loaded

ONE, TWO = "k1-aaaaaa", "k1-bbbbbb"


def life(cell: str) -> list[str]:
    steps = "tests/cells/life/test_life.py::test_"
    return [
        f"{steps}provision[{cell}]",
        f"{steps}phase[{cell}-deploy]",
        f"tests/cells/nodes/test_nodes.py::test_ready[{cell}-deploy]",
        f"{steps}teardown[{cell}]",
        f"{steps}gone[{cell}]",
    ]


def test_each_cell_has_its_own_items() -> None:
    assert items_of([ONE, TWO], life(ONE) + life(TWO)) == {ONE: [0, 1, 2, 3, 4], TWO: [5, 6, 7, 8, 9]}


def test_a_cell_of_which_nothing_was_selected_is_left_out() -> None:
    assert items_of([ONE, TWO], life(TWO)) == {TWO: [0, 1, 2, 3, 4]}


def test_nothing_at_all_is_said() -> None:
    with pytest.raises(NothingSelected, match="no check was selected") as said:
        items_of([ONE, TWO], [])
    assert said.value.exit_code == EXIT_NOTHING_SELECTED


def test_a_life_without_its_end_is_refused() -> None:
    with pytest.raises(BadInput, match=f"{TWO}: the selection leaves out the last step"):
        items_of([ONE, TWO], life(ONE) + life(TWO)[:-1])


def test_a_run_whose_selection_matches_no_check_ends_with_code_4_and_touches_nothing(tmp_path: Path) -> None:
    argv = ["-p", "no:cacheprovider", "--tier", "smoke", "-k", "no_such_check", "--runs", str(tmp_path / "runs")]
    command = [sys.executable, "-m", "pytest", str(project_dir() / "tests" / "cells"), *argv]
    ended = run_loaded(command, cwd=tmp_path)
    assert ended.returncode == EXIT_NOTHING_SELECTED, ended.stdout + ended.stderr
    assert "no check was selected" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_selection_of_checks_keeps_the_steps_around_them(tmp_path: Path) -> None:
    argv = ["-p", "no:cacheprovider", "--tier", "smoke", "-k", "conformance and ReplicaSet", "--collect-only", "-q"]
    command = [sys.executable, "-m", "pytest", str(project_dir() / "tests" / "cells"), *argv]
    ended = run_loaded(command, cwd=tmp_path)
    names = [line.partition("::")[2].partition("[")[0] for line in ended.stdout.splitlines() if "::" in line]
    assert names[:2] == ["test_provision", "test_phase"]
    assert names[-2:] == ["test_teardown", "test_gone"]
    assert set(names[2:-2]) == {"test_conformance"}
