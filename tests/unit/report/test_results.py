"""What cells came to: attempts, reruns, stages, kills, signals, quarantine."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.errors import EXIT_INFRA, EXIT_LEAKED, EXIT_OK, EXIT_PRODUCT
from harness.report.cell import CellResult
from harness.report.results import RunResult, load
from harness.session.exit_codes import exit_code
from harness.spec.models import QuarantineEntry
from tests.unit.report.written import ISSUE, Written

ONE, TWO = "k1-aaaaaa", "k1-bbbbbb"


def only(run: Written) -> CellResult:
    (cell,) = load(run.directory).cells
    return cell


def excusing(cell: str = "*", check: str | None = None, until: date = date.max) -> list[QuarantineEntry]:
    return [QuarantineEntry(cell=cell, check=check, issue=ISSUE, reason="known", until=until)]


def code(result: RunResult) -> int:
    return exit_code(result, before=0, leaked=False, pytest_status=1)


def test_a_cell_that_never_began_is_not_started(run: Written) -> None:
    run.start(ONE, TWO).passes(ONE)
    cells = load(run.directory).cells
    assert [c.outcome for c in cells] == ["passed", "not started"]
    assert cells[1].attempts == ()


def test_a_cell_that_was_killed_between_two_steps_has_not_passed(run: Written) -> None:
    run.start(ONE).step(ONE, "provision").step(ONE, "deploy").check(ONE)
    assert only(run).outcome == "unfinished"
    run.gone(ONE)
    assert only(run).outcome == "passed"


def test_a_cell_that_came_and_went_without_a_check_is_unchecked(run: Written) -> None:
    run.start(ONE).step(ONE, "provision").gone(ONE)
    assert only(run).outcome == "unchecked"


def test_a_cell_that_a_signal_ended_in_a_check_is_interrupted_and_the_one_before_is_not(run: Written) -> None:
    run.start(ONE, TWO).passes(ONE)
    run.step(TWO, "provision").step(TWO, "deploy").check(TWO).event("signal", number=2).gone(TWO).end(130, signal=2)
    assert [c.outcome for c in load(run.directory).cells] == ["passed", "interrupted"]


def test_a_rerun_counts_and_the_failed_attempt_before_stays_visible(run: Written) -> None:
    run.start(ONE, TWO).passes(ONE)
    run.step(TWO, "provision").step(TWO, "deploy").check(TWO, outcome="failed", blame="product", detail="no").gone(TWO)
    run.end(1)
    run.seconds += 60
    run.start(TWO, rerun=True).passes(TWO).end(0)
    result = load(run.directory)
    first, again = result.cells
    assert (first.outcome, first.earlier) == ("passed", {})
    assert (again.outcome, again.earlier, again.last_attempt) == ("passed", {1: "failed"}, 2)
    assert [c.attempt for c in again.checks] == [1, 2]
    assert again.failed_checks == ()
    assert again.last_seconds == pytest.approx(11 + 40 + 0.5 + 1 + 8)
    assert result.exit_code == 0
    assert exit_code(result, before=0, leaked=False, pytest_status=0) == EXIT_OK
    assert [(s.cells, s.exit_code) for s in result.sessions] == [(2, 1), (1, 0)]


def test_a_rerun_that_fails_otherwise_has_the_exit_code_of_its_own_failure(run: Written) -> None:
    run.start(ONE).step(ONE, "provision").check(ONE, outcome="failed", blame="product").gone(ONE).end(1)
    run.start(ONE, rerun=True).fails(ONE, "provision", code=EXIT_INFRA).gone(ONE)
    result = load(run.directory)
    assert code(result) == EXIT_INFRA
    assert result.cells[0].blames == {"infra": 1}
    assert result.exit_code is None


def test_a_provisioning_that_was_repeated_in_the_same_run(run: Written) -> None:
    run.start(ONE).admitted(ONE).fails(ONE, "provision")
    run.begin(ONE, "start over").step(ONE, "start over", "teardown").over(ONE, "start over")
    run.attempt[ONE] = 2
    run.passes(ONE)
    cell = only(run)
    assert (cell.outcome, cell.earlier) == ("passed", {1: "failed"})
    assert cell.admitted is not None


def test_a_step_that_fails_twice_in_an_attempt_is_two_failures(run: Written) -> None:
    run.start(ONE).step(ONE, "provision").check(ONE).fails(ONE, "teardown", code=EXIT_LEAKED, summary="first")
    run.fails(ONE, "teardown", code=EXIT_LEAKED, summary="second")
    assert [s.summary for s in only(run).failures] == ["first", "second"]
    assert code(load(run.directory)) == EXIT_LEAKED


def test_a_step_that_was_interrupted_and_tried_again_keeps_both_ends(run: Written) -> None:
    run.start(ONE).step(ONE, "collect", outcome="interrupted").step(ONE, "collect", seconds=3.0).begin(ONE, "teardown")
    assert [(s.name, s.outcome) for s in only(run).steps] == [
        ("collect", "interrupted"),
        ("collect", "passed"),
        ("teardown", "unfinished"),
    ]


def test_a_check_that_fails_to_clean_up_after_it_passed_is_one_failed_check(run: Written) -> None:
    run.start(ONE).check(ONE).check(ONE, outcome="failed", blame="harness", detail="left a pod").gone(ONE)
    (check,) = only(run).checks
    assert (check.outcome, check.detail, check.seconds) == ("failed", "left a pod", 1.0)


def test_the_same_check_after_two_stages_is_two_checks(run: Written) -> None:
    run.start(ONE).check(ONE).check(ONE, outcome="failed", stage="upgrade", blame="product").gone(ONE)
    cell = only(run)
    assert [c.outcome for c in cell.checks] == ["passed", "failed"]
    assert cell.stages == ("deploy", "upgrade")
    assert cell.label(cell.checks[1]) == "nodes: test_ready (after upgrade)"


def test_a_wait_for_room_is_no_part_of_what_a_cell_takes(run: Written) -> None:
    run.start(ONE).step(ONE, "admission", seconds=600.0).passes(ONE)
    cell = only(run)
    assert cell.waited == 600.0
    assert cell.last_seconds == cell.seconds == pytest.approx(60.5)


def test_a_cell_of_a_run_with_workers_waited_until_it_was_given_to_one(run: Written) -> None:
    run.start(ONE, parallel=3)
    run.seconds += 62
    run.admitted(ONE, expected=95).passes(ONE).end(0)
    cell = only(run)
    assert cell.admitted is not None
    assert (cell.waited, cell.admitted.worker, cell.admitted.expected) == (62.0, "gw0", 95.0)
    assert load(run.directory).parallel == 3


def test_an_admission_of_the_first_call_says_nothing_of_a_rerun_without_workers(run: Written) -> None:
    run.start(ONE, parallel=3).admitted(ONE).fails(ONE, "provision").gone(ONE).end(75)
    run.start(ONE, rerun=True).passes(ONE).end(0)
    assert only(run).admitted is None


@pytest.mark.parametrize("after", ["teardown", "worker"])
def test_a_kept_cell_is_kept_until_a_later_attempt_takes_it_away(run: Written, after: str) -> None:
    run.start(ONE).step(ONE, "provision").check(ONE, outcome="failed", blame="product").step(ONE, "collect")
    run.event("kept", cell=ONE, attempt=1).end(1)
    assert load(run.directory).kept == {ONE}
    run.start(ONE, rerun=True).step(ONE, "provision")
    assert load(run.directory).kept == {ONE}
    run.step(ONE, after)
    assert load(run.directory).kept == frozenset()


def test_a_repeated_provisioning_takes_a_kept_attempt_away_too(run: Written) -> None:
    run.start(ONE).fails(ONE, "provision").event("kept", cell=ONE, attempt=1).end(75)
    run.start(ONE, rerun=True).fails(ONE, "provision").step(ONE, "start over", "teardown")
    assert load(run.directory).kept == frozenset()


def test_a_failure_in_quarantine_does_not_count_and_is_not_a_pass(run: Written) -> None:
    run.start(ONE).check(ONE).check(ONE, "test_swap", "failed", blame="product").gone(ONE)
    result = load(run.directory, quarantine=excusing(check="nodes: test_s*"))
    (cell,) = result.cells
    assert cell.outcome == "quarantined"
    assert [c.quarantine for c in cell.failed_checks] == [ISSUE]
    assert cell.blames == {}
    assert code(result) == EXIT_OK


def test_a_failure_beside_one_in_quarantine_counts(run: Written) -> None:
    run.start(ONE).check(ONE, outcome="failed", blame="product").check(ONE, "test_swap", "failed", blame="product")
    result = load(run.gone(ONE).directory, quarantine=excusing(check="nodes: test_s*"))
    assert result.cells[0].outcome == "failed"
    assert result.cells[0].quarantined
    assert code(result) == EXIT_PRODUCT


def test_an_entry_without_a_check_excuses_steps_until_its_last_day(run: Written) -> None:
    run.start(ONE).begin(ONE, "deploy").fails(ONE, "deploy", "apply", blame="product", code=EXIT_PRODUCT)
    run.over(ONE, "deploy", outcome="failed", blame="product").gone(ONE)
    assert load(run.directory, quarantine=excusing()).cells[0].outcome == "quarantined"
    past = excusing(until=date(2020, 1, 1))
    assert load(run.directory, quarantine=past).cells[0].outcome == "failed"
    assert load(run.directory, quarantine=excusing(cell="other-*")).cells[0].outcome == "failed"


def test_whose_fault_is_counted_by_what_counts(run: Written) -> None:
    run.start(ONE, TWO).fails(ONE, "provision", blame="infra").gone(ONE)
    run.check(TWO, "a", "failed", blame="product").check(TWO, "b", "failed", blame="harness").gone(TWO)
    assert [c.blames for c in load(run.directory).cells] == [{"infra": 1}, {"harness": 1, "product": 1}]


def test_what_ended_a_run_outside_of_any_cell_is_known(run: Written) -> None:
    run.start(ONE).event("run-error", blame="infra", summary="the cluster does not answer").end(3)
    result = load(run.directory)
    assert result.error == "the cluster does not answer"
    assert result.outcomes == {"not started": 1}


def test_nothing_written_yet_is_an_empty_run(tmp_path: Path) -> None:
    result = load(tmp_path)
    assert (result.cells, result.exit_code, result.command, result.started) == ((), None, "", "")


def test_a_cell_that_was_kept_has_passed_without_a_teardown(run: Written) -> None:
    run.start(ONE).step(ONE, "provision").step(ONE, "deploy").check(ONE)
    assert only(run).outcome == "unfinished"
    run.event("kept", cell=ONE, attempt=1, said="kept")
    assert only(run).outcome == "passed"
    assert exit_code(load(run.directory), before=0, leaked=False, pytest_status=0) == EXIT_OK
