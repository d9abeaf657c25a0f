"""Reports list what was not judged or left out, count it, and do not take a cell for good that proves nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from harness.report import summary, words
from harness.report.cell import groups_of
from harness.report.results import load
from harness.session.exit_codes import exit_code
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


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Return a run of four cells: one passed, one failed, one was cut off by SIGINT, one was not begun."""
    run = Written(tmp_path).start("a", "b", "c", "d")
    run.passes("a")
    run.fails("b", "provision").gone("b")
    run.step("c", "provision").check("c").begin("c", "deploy").begin("c", "deploy", "kubeadm init")
    run.event("signal", number=int(signal.SIGINT))
    run.over("c", "deploy", "kubeadm init", outcome="interrupted").over("c", "deploy", outcome="interrupted").gone("c")
    return run


def test_what_ran_and_what_did_not_is_named(written: Written) -> None:
    written.event("run-end", exit_code=130, signal=2, not_run={"c": 14, "d": 20})

    assert words.interruption_lines(load(written.directory)) == [
        "interrupted by SIGINT: 2 of 4 cells ran to the end, 1 cut off, 1 not begun",
        "  c: cut off in deploy / kubeadm init; 1 check ran; 14 steps and checks did not run",
        "  d: not begun",
    ]


def test_the_headline_and_the_summary_say_it_first(written: Written) -> None:
    written.end(130, signal=2)
    result = load(written.directory)

    headline = "interrupted by SIGINT; 1 of 4 cells passed, 1 failed, 1 interrupted, 1 not started"
    assert words.interruption_headline(result) == headline
    lines = summary.render(result).splitlines()
    assert lines[2] == f"**{headline}**"
    assert lines[4] == "- interrupted by SIGINT: 2 of 4 cells ran to the end, 1 cut off, 1 not begun"
    assert lines[5] == "- c: cut off in deploy / kubeadm init; 1 check ran"


def test_a_cell_that_was_cut_off_in_a_check_is_cut_off(tmp_path: Path) -> None:
    run = Written(tmp_path).start("a").step("a", "provision").check("a")
    run.event("signal", number=int(signal.SIGTERM)).gone("a").end(143, signal=15)

    assert words.interruption_lines(load(tmp_path)) == [
        "interrupted by SIGTERM: 0 of 1 cells ran to the end, 1 cut off",
        "  a: cut off between two steps or in a check; 1 check ran",
    ]


def test_of_many_cells_only_some_are_named(tmp_path: Path) -> None:
    Written(tmp_path).start(*(f"c{number}" for number in range(30))).event("signal", number=2).end(130, signal=2)

    said = words.interruption_lines(load(tmp_path))

    assert len(said) == 12
    assert said[-1] == "  and 20 more"


def test_a_run_that_nobody_interrupted_says_nothing(tmp_path: Path) -> None:
    Written(tmp_path).start("a").passes("a").end(0)
    result = load(tmp_path)

    assert words.interruption_lines(result) == []
    assert words.interruption_headline(result) == "1 of 1 cells passed"


def test_a_rerun_that_ended_well_is_not_interrupted(written: Written) -> None:
    written.end(130, signal=2)
    written.start("c", rerun=True).passes("c").end(0)

    assert words.interruption_lines(load(written.directory)) == []
