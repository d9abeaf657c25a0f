"""A summary says of every control what became of it, if a cell has checks of them."""

from __future__ import annotations

from harness.report.cell import CellResult
from harness.report.controls import told
from harness.report.step import Check
from harness.spec.controls import controls

FILES = "test_files_are_left_to_root_alone"
STRANGERS = "test_strangers_may_ask_for_health_alone"


def cell(*checks: Check) -> CellResult:
    return CellResult("cell-1", "cell-1", (), checks, ())


def check(name: str, outcome: str, suite: str = "hardening") -> Check:
    return Check(name, suite, outcome, 0.1)


def test_cells_without_such_checks_say_nothing() -> None:
    assert told([]) == []
    assert told([cell(check("test_a", "passed", "nodes"), check(FILES, "not-run"))]) == []


def test_every_control_is_counted_and_those_that_are_not_met_are_named() -> None:
    lines = told([cell(check(FILES, "passed"), check(STRANGERS, "failed"))])
    known = controls().values()
    files = sum(f"hardening: {FILES}" in one.met for one in known)
    unseen = sum(bool(one.met) for one in known) - files - 1
    choices, persons = (sum(bool(getattr(one, name)) for one in known) for name in ("not_met", "person"))
    assert f"| `cell-1` | {files} | 1 | {unseen} | {choices} | {persons} |" in lines
    assert "Not met in `cell-1`:" in lines
    assert f"- 1.2.1 {controls()['1.2.1'].title}" in lines
    assert any(line.startswith("- 5.3.1 ") and line.endswith("the suite policies proves it") for line in lines)
    assert any(line.startswith(f"- `hardening: {FILES}`: 1.1.1, 1.1.2") for line in lines)


def test_a_failure_after_any_phase_counts() -> None:
    lines = told([cell(check(STRANGERS, "passed"), check(STRANGERS, "failed"))])
    assert f"- 1.2.1 {controls()['1.2.1'].title}" in lines
