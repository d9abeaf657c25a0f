"""An interrupted run says what ran, what did not and why: in its summary, and below its tables."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from harness.report import interruption, summary
from harness.report.results import load
from tests.unit.report.written import Written


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

    assert interruption.told(load(written.directory)) == [
        "interrupted by SIGINT: 2 of 4 cells ran to the end, 1 cut off, 1 not begun",
        "  c: cut off in deploy / kubeadm init; 1 check ran; 14 steps and checks did not run",
        "  d: not begun",
    ]


def test_the_headline_and_the_summary_say_it_first(written: Written) -> None:
    written.end(130, signal=2)
    result = load(written.directory)

    headline = "interrupted by SIGINT; 1 of 4 cells passed, 1 failed, 1 interrupted, 1 not started"
    assert interruption.headline(result) == headline
    lines = summary.render(result).splitlines()
    assert lines[2] == f"**{headline}**"
    assert lines[4] == "- interrupted by SIGINT: 2 of 4 cells ran to the end, 1 cut off, 1 not begun"
    assert lines[5] == "- c: cut off in deploy / kubeadm init; 1 check ran"


def test_a_cell_that_was_cut_off_in_a_check_is_cut_off(tmp_path: Path) -> None:
    run = Written(tmp_path).start("a").step("a", "provision").check("a")
    run.event("signal", number=int(signal.SIGTERM)).gone("a").end(143, signal=15)

    assert interruption.told(load(tmp_path)) == [
        "interrupted by SIGTERM: 0 of 1 cells ran to the end, 1 cut off",
        "  a: cut off between two steps or in a check; 1 check ran",
    ]


def test_of_many_cells_only_some_are_named(tmp_path: Path) -> None:
    Written(tmp_path).start(*(f"c{number}" for number in range(30))).event("signal", number=2).end(130, signal=2)

    said = interruption.told(load(tmp_path))

    assert len(said) == 12
    assert said[-1] == "  and 20 more"


def test_a_run_that_nobody_interrupted_says_nothing(tmp_path: Path) -> None:
    Written(tmp_path).start("a").passes("a").end(0)
    result = load(tmp_path)

    assert interruption.told(result) == []
    assert interruption.headline(result) == "1 of 1 cells passed"


def test_a_rerun_that_ended_well_is_not_interrupted(written: Written) -> None:
    written.end(130, signal=2)
    written.start("c", rerun=True).passes("c").end(0)

    assert interruption.told(load(written.directory)) == []
