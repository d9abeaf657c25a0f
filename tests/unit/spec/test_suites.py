"""Checks that a product leaves out exist, and some are left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.paths import packaged_dir
from harness.spec import load_spec
from harness.spec.suites import fits, fits_any, titles
from tests.unit.spec.conftest import edit, mistakes

PHASES = "  phases:\n"


def leaving_out(matrix: Path, *globs: str) -> None:
    """Let the product leave out checks of a project with one suite of two checks."""
    suite = matrix.parent / "tests" / "cells" / "nodes"
    (suite / "test_it.py").write_text("def test_one(x):\n    ...\n\n\ndef test_two(x):\n    ...\n", encoding="utf-8")
    (matrix / "quarantine.yml").write_text("quarantine: []\n", encoding="utf-8")  # of checks that are not there now
    entries = ", ".join(f'{{check: "{glob}", reason: no such thing}}' for glob in globs)
    edit(matrix / "product.yml", PHASES, f"  checks: {{leave_out: [{entries}]}}\n{PHASES}")


def test_every_check_that_ships_has_a_title() -> None:
    found = titles(packaged_dir())
    assert "nodes: test_kube_proxy_runs_in_the_expected_mode" in found
    assert "conformance: test_conformance" in found
    assert not [title for title in found if title.startswith("life:")]


def test_a_glob_means_checks_and_specs_of_checks() -> None:
    assert fits("conformance: test_conformance[[sig-node] Pods should run]", "conformance: test_conformance")
    assert fits("conformance: test_conformance[[sig-node] Pods should run]", "conformance: *Pods should run*")
    assert not fits("nodes: test_one", "network: *")


def test_checks_that_exist_may_be_left_out(matrix: Path) -> None:
    leaving_out(matrix, "nodes: test_o*")
    assert load_spec(matrix).product.checks.leave_out[0].reason == "no such thing"


@pytest.mark.parametrize("glob", ["nodes: test_three", "nodse: test_one"])
def test_a_glob_that_matches_no_check_is_a_mistake(matrix: Path, glob: str) -> None:
    leaving_out(matrix, "nodes: test_o*", glob)
    (found,) = mistakes(matrix)
    assert f"product.checks.leave_out[1].check: {glob!r} matches no check" in found


def test_a_glob_without_a_reason_is_a_mistake(matrix: Path) -> None:
    leaving_out(matrix, "nodes: test_o*")
    edit(matrix / "product.yml", ", reason: no such thing", "")
    assert "product.checks.leave_out[0].reason: missing" in "\n".join(mistakes(matrix))


def test_to_leave_out_every_check_is_a_mistake(matrix: Path) -> None:
    leaving_out(matrix, "*: test_*")
    assert "product.checks.leave_out: leaves out every check" in "\n".join(mistakes(matrix))


def test_checks_in_classes_are_known_by_class_and_name(tmp_path: Path) -> None:
    folder = tmp_path / "checks"
    folder.mkdir()
    text = "def test_alone():\n    pass\n\n\nclass TestGroup:\n    def test_inside(self):\n        pass\n"
    (folder / "test_own.py").write_text(text, encoding="utf-8")
    assert {"own: test_alone", "own: TestGroup::test_inside"} <= set(titles(tmp_path))
    assert fits_any(tmp_path, "own: TestGroup::*")
    assert not fits_any(tmp_path, "own: test_nope*")


def test_a_check_that_is_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    os.mkfifo(tmp_path / "checks" / "test_own.py")
    assert not fits_any(tmp_path, "own: test_nope*")
