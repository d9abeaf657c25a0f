"""A summary says of every control what became of it, if a cell has checks of them."""

from __future__ import annotations

from harness.check_result import CheckResult
from harness.model import Outcome
from harness.report.cell import CellResult
from harness.report.summary import SpecItem, counted, differences, spec_name, table, told
from harness.spec.controls import controls

FILES = "test_files_are_left_to_root_alone"
STRANGERS = "test_strangers_may_ask_for_health_alone"


def cell(*checks: CheckResult) -> CellResult:
    return CellResult("cell-1", "cell-1", (), checks, ())


def check(name: str, outcome: str, suite: str = "hardening") -> CheckResult:
    return CheckResult(name, suite, Outcome(outcome), 0.1)


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


SUITE = "certification"
AXES = {
    "one": {"kubernetes": "1.36.3", "network": "flannel"},
    "two": {"kubernetes": "1.36.3", "network": "routes"},
    "three": {"kubernetes": "1.35.4", "network": "flannel"},
}


def item(cell: str, name: str, outcome: str, reason: str = "", *, skipped: bool = False) -> SpecItem:
    return SpecItem(cell, SUITE, name, outcome, reason, skipped)


def test_every_spec_is_counted_as_one_of_four() -> None:
    (found,) = counted(
        [
            item("one", "a", "passed"),
            item("one", "b", "failed", "wrong"),
            item("one", "c", "not-run", "skipped by the spec itself: needs two zones", skipped=True),
            item("one", "d", "not-run", "image x:1 is missing, because of y"),
            item("one", "e", "not-run", "image x:1 is missing, because of y"),
        ]
    )
    assert found.counts == {"passed": 1, "failed": 1, "skipped by the spec itself": 1, "not run": 2}
    assert found.reasons == {"image x:1 is missing, because of y": 2}
    lines = table([found])
    assert "| `one` | certification | 1 | 1 | 1 | 2 |" in lines
    assert "- not run, 2: image x:1 is missing, because of y" in lines


def test_a_spec_that_fails_on_one_value_and_passes_on_others_is_said_so() -> None:
    found = [item("one", "a", "passed"), item("two", "a", "failed"), item("three", "a", "passed")]
    (apart,) = differences(found, AXES)
    assert apart.told == "a fails on network routes, and passes on flannel"


def test_a_spec_that_passes_and_fails_on_a_value_goes_with_none() -> None:
    found = [item("one", "a", "passed"), item("three", "a", "failed"), item("two", "a", "failed")]
    assert [apart.axis for apart in differences(found, AXES)] == []
    everywhere = [item(cell, "b", "failed") for cell in AXES]
    assert differences(everywhere, AXES) == ()


def test_only_items_of_whole_sets_are_about_one_spec() -> None:
    assert spec_name("certification", "test_spec[[sig-apps] a [Conformance]]") == "[sig-apps] a [Conformance]"
    assert spec_name("certification", "test_the_specs_pods_are_gone") is None
    assert spec_name("conformance", "test_conformance[a]") is None
    assert table(()) == []
