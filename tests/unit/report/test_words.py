"""Reports list what was not judged or left out, count it, and do not take a cell for good that proves nothing."""

from __future__ import annotations

from harness.report import summary
from harness.report.groups import groups_of
from harness.report.results import load
from harness.session.verdict import exit_code
from tests.unit.report.written import Written

UNKNOWN = "not judged: tunnels: the network plugin calico is not described"
LEFT_OUT = "left out: no such unit"


def ended(run: Written) -> Written:
    return run.step("one", "teardown").end(0)


def test_they_are_counted_and_listed_with_their_reasons(run: Written) -> None:
    run.start("one").step("one", "deploy")
    run.check("one", "test_a", "passed", properties={"not_judged": ["kube-proxy's DaemonSet: none runs"]})
    run.check("one", "test_b", "not-run", detail=UNKNOWN).check("one", "test_c", "not-run", detail=LEFT_OUT)
    ended(run)
    result = load(run.directory)
    (cell,) = result.cells
    assert [group.said for group in groups_of(cell, 1)] == ["1 passed, 1 not judged, 1 left out"]
    text = summary.render(result)
    told = text[text.index("Not judged:") :]
    assert "test_b: tunnels: the network plugin calico is not described" in told
    assert "test_a, in part: kube-proxy's DaemonSet: none runs" in told
    assert told.index("Left out by the product:") < told.index("test_c: no such unit")
    assert (cell.outcome, exit_code(result, before=0, leaked=False, pytest_status=0)) == ("passed", 0)


def test_a_cell_of_which_nothing_was_judged_is_no_success(run: Written) -> None:
    run.start("one").step("one", "deploy")
    ended(run.check("one", "test_b", "not-run", detail=UNKNOWN).check("one", "test_c", "not-run", detail=LEFT_OUT))
    result = load(run.directory)
    assert exit_code(result, before=0, leaked=False, pytest_status=0) == 1
    assert "unchecked: the product leaves out every check" in summary.render(result)


def test_a_cell_without_checks_is_still_what_it_was(run: Written) -> None:
    ended(run.start("one").step("one", "deploy"))
    result = load(run.directory)
    assert (result.cells[0].outcome, exit_code(result, before=0, leaked=False, pytest_status=0)) == ("unchecked", 0)
